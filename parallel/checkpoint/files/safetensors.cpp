#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <sinew/parallel/checkpoint/files/safetensors.hpp>

namespace sinew::parallel {
namespace {

constexpr std::array kNames{"I8",  "U8",  "I32",     "U32",     "I64",  "U64", "F16", "BF16",
                            "F32", "F64", "F8_E4M3", "F8_E5M2", "BOOL", "I16", "U16"};
static_assert(kNames.size() == kDTypeCount);

struct Entry {
  std::string name;
  std::vector<std::int64_t> shape;
};

Entry entry_of(const CheckpointItem& item, const Extent& extent) {
  if (extent == whole_of(item)) return {item.name, item.shape};
  if (extent.box == whole_of(item).box) {
    Entry entry{fmt::format("{}@{}:{}", item.name, extent.first, extent.last), {extent.elements()}};
    const std::int64_t rows = item.shape.empty() ? 0 : item.shape.front();
    const std::int64_t row = rows > 0 ? item.elements() / rows : 0;
    if (row == 0 || extent.first % row != 0 || extent.last % row != 0) return entry;
    entry.shape = item.shape;
    entry.shape.front() = extent.elements() / row;
    return entry;
  }
  std::vector<std::string> sides;
  std::vector<std::int64_t> shape;
  for (std::size_t d = 0; d < item.shape.size(); ++d) {
    sides.push_back(fmt::format("{}:{}", extent.box.first[d], extent.box.last[d]));
    shape.push_back(extent.box.extent(d));
  }
  const std::string name = fmt::format("{}@[{}]", item.name, fmt::join(sides, ","));
  if (extent == box_of(extent.box)) return {name, shape};
  return {fmt::format("{}@{}:{}", name, extent.first, extent.last), {extent.elements()}};
}

}  // namespace

std::string safetensors_header(const CheckpointIndex& index, std::int32_t file) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "sinew-checkpoint"}, {"step", std::to_string(index.metadata.step)}};
  for (const StoredItem& stored : index.items) {
    for (const StoredPart& part : stored.parts) {
      if (part.file != file) continue;
      const Entry entry = entry_of(stored.item, part.extent);
      header[entry.name] = {{"dtype", kNames[static_cast<std::size_t>(stored.item.dtype)]},
                            {"shape", entry.shape},
                            {"data_offsets", {part.offset, part.offset + bytes_of(stored.item, part.extent)}}};
    }
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  constexpr std::size_t kLine = 64;
  text.resize((text.size() + 8 + kLine - 1) / kLine * kLine - 8, ' ');
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>((text.size() >> (8 * i)) & 0xFF);
  return bytes + text;
}

}  // namespace sinew::parallel
