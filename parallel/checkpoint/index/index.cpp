#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sinew/core/error.hpp>
#include <sinew/parallel/checkpoint/index/cover.hpp>
#include <sinew/parallel/checkpoint/index/crc32.hpp>
#include <sinew/parallel/checkpoint/index/index.hpp>

namespace sinew::parallel {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "sinew-checkpoint";
constexpr int kVersion = 1;
constexpr std::string_view kSeal = ",\"crc32\":\"";  // then eight digits, and the end of the object

Json json_of(const CheckpointItem& item) {
  return {{"name", item.name}, {"dtype", std::string(name_of(item.dtype))}, {"shape", item.shape}};
}

Json json_of(const CheckpointItem& item, const Extent& extent) {
  Json json{{"first", extent.first}, {"last", extent.last}};
  if (extent.box == whole_of(item).box) return json;
  json["box_first"] = extent.box.first;
  json["box_last"] = extent.box.last;
  return json;
}

/// Reads members, and says which one is not as expected.
class Members {
 public:
  Members(const Json& json, std::string path) : json_(json), path_(std::move(path)) {
    if (!json.is_object()) reject("", "an object");
  }

  bool has(const char* key) const { return json_.contains(key); }
  const Json& at(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) reject(key, "to be there");
    return *found;
  }
  std::string text(const char* key) const {
    if (!at(key).is_string()) reject(key, "a string");
    return at(key).get<std::string>();
  }
  double number(const char* key) const {
    if (!at(key).is_number()) reject(key, "a number");
    return at(key).get<double>();
  }
  bool flag(const char* key) const {
    if (!at(key).is_boolean()) reject(key, "true or false");
    return at(key).get<bool>();
  }
  template <class T>
  T integer(const char* key) const {
    return integer_of<T>(at(key), key);
  }
  template <class T>
  std::vector<T> integers(const char* key) const {
    std::vector<T> all;
    for (const Json& j : list(key)) all.push_back(integer_of<T>(j, key));
    return all;
  }
  const Json& list(const char* key) const {
    if (!at(key).is_array()) reject(key, "a list");
    return at(key);
  }
  [[noreturn]] void reject(std::string_view key, std::string_view expected) const {
    throw Error(Code::InvalidArgument,
                fmt::format("{}{}{}: expected {}", path_, key.empty() ? "" : ".", key, expected));
  }

 private:
  template <class T>
  T integer_of(const Json& j, const char* key) const {
    const bool fits = j.is_number_unsigned() ? std::in_range<T>(j.get<std::uint64_t>())
                                             : j.is_number_integer() && std::in_range<T>(j.get<std::int64_t>());
    if (!fits)
      reject(key,
             fmt::format("an integer from {} to {}", std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
    return j.get<T>();
  }

  const Json& json_;
  std::string path_;
};

CheckpointItem item_from(const Members& in) {
  const auto dtype = dtype_from_name(in.text("dtype"));
  if (!dtype) in.reject("dtype", "an element type");
  CheckpointItem item{in.text("name"), *dtype, in.integers<std::int64_t>("shape")};
  require_valid(item, {{std::vector<std::int64_t>(item.shape.size(), 0), item.shape}, 0, 0});
  return item;
}

Extent extent_from(const Members& in, const CheckpointItem& item) {
  Extent extent = range_of(item, in.integer<std::int64_t>("first"), in.integer<std::int64_t>("last"));
  if (in.has("box_first")) extent.box = {in.integers<std::int64_t>("box_first"), in.integers<std::int64_t>("box_last")};
  require_valid(item, extent);
  return extent;
}

/// Errors: InvalidArgument for texts that JSON cannot hold.
std::string dumped(const Json& json, int indent) {
  try {
    return json.dump(indent);
  } catch (const Json::exception& e) {
    throw Error(Code::InvalidArgument, fmt::format("checkpoint: names and texts are UTF-8: {}", e.what()));
  }
}

Json parsed(std::string_view text) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& e) {
    throw Error(Code::InvalidArgument, fmt::format("expected JSON: {}", e.what()));
  }
}

Json json_of(const CheckpointMetadata& m) {
  Json json{{"step", m.step},     {"optimizer_steps", m.optimizer_steps},
            {"seed", m.seed},     {"data_position", m.data_position},
            {"layout", m.layout}, {"configuration", m.configuration}};
  if (m.loss_scale) {
    json["loss_scale"] = {{"scale", m.loss_scale->scale},
                          {"good_steps", m.loss_scale->good_steps},
                          {"skipped_steps", m.loss_scale->skipped_steps}};
  }
  if (m.sampler) {
    json["sampler"] = {{"seed", m.sampler->seed},
                       {"samples", m.sampler->samples},
                       {"shuffled", m.sampler->shuffled},
                       {"epoch", m.sampler->epoch},
                       {"position", m.sampler->position}};
  }
  return json;
}

LossScaleState loss_scale_from(const Members& in) {
  return {in.number("scale"), in.integer<std::int64_t>("good_steps"), in.integer<std::int64_t>("skipped_steps")};
}

SamplerState sampler_from(const Members& in) {
  const SamplerState state{.seed = in.integer<std::uint64_t>("seed"),
                           .samples = in.integer<std::int64_t>("samples"),
                           .shuffled = in.flag("shuffled"),
                           .epoch = in.integer<std::int64_t>("epoch"),
                           .position = in.integer<std::int64_t>("position")};
  try {
    require_sound(state);
  } catch (const Error& e) {
    throw Error(Code::InvalidArgument, fmt::format("metadata.{}", e.what()));
  }
  return state;
}

CheckpointMetadata metadata_from(const Members& in) {
  CheckpointMetadata metadata{in.integer<std::int64_t>("step"),
                              in.integer<std::int64_t>("optimizer_steps"),
                              in.integer<std::uint64_t>("seed"),
                              in.integer<std::int64_t>("data_position"),
                              in.text("layout"),
                              in.text("configuration")};
  if (in.has("loss_scale")) metadata.loss_scale = loss_scale_from(Members(in.at("loss_scale"), "metadata.loss_scale"));
  if (in.has("sampler")) metadata.sampler = sampler_from(Members(in.at("sampler"), "metadata.sampler"));
  return metadata;
}

StoredFile file_from(const Members& in) {
  StoredFile file{in.text("name"), in.integer<std::int32_t>("rank"), in.integer<std::uint64_t>("header_bytes"),
                  in.integer<std::uint64_t>("data_bytes"), in.integer<std::uint32_t>("header_crc")};
  if (file.name.empty() || file.name.find('/') != std::string::npos || file.name.front() == '.')
    in.reject("name", "the name of a file in the same folder");
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  if (file.header_bytes < 8 || file.header_bytes > kMost || file.data_bytes > kMost)
    in.reject("header_bytes", "8 or more, and less than 2^62 bytes of data");
  return file;
}

StoredPart part_from(const Members& in, const CheckpointItem& item, const std::vector<StoredFile>& files) {
  StoredPart part{extent_from(in, item), in.integer<std::int32_t>("file"), in.integer<std::uint64_t>("offset"),
                  in.integers<std::uint32_t>("crcs")};
  if (part.file < 0 || part.file >= std::ssize(files)) in.reject("file", "the number of a file");
  const StoredFile& file = files[static_cast<std::size_t>(part.file)];
  const std::uint64_t bytes = bytes_of(item, part.extent);
  if (part.offset > file.data_bytes || bytes > file.data_bytes - part.offset)
    in.reject("offset", fmt::format("{} bytes within the file's {}", bytes, file.data_bytes));
  if (part.crcs.size() != blocks_of(bytes)) in.reject("crcs", fmt::format("{} checksums", blocks_of(bytes)));
  return part;
}

/// The cheaper half of the proof: text from outside may name more rows than a sweep should see.
void require_as_many_elements(const Members& in, const StoredItem& stored) {
  std::int64_t left = stored.item.elements();
  for (const StoredPart& p : stored.parts) {
    left -= p.extent.elements();
    if (left < 0) break;
  }
  if (left != 0) in.reject("parts", fmt::format("{} elements in all of them", stored.item.elements()));
}

CheckpointIndex index_of(const Json& json) {
  const Members top(json, "index");
  const std::string format = top.text("format");
  const auto version = top.integer<int>("version");
  const auto block_bytes = top.integer<std::uint64_t>("block_bytes");
  if (format != kFormat || version != kVersion || block_bytes != kBlockBytes) {
    top.reject("format", fmt::format("{}, version {}, block_bytes {}; found {}, version {}, block_bytes {}", kFormat,
                                     kVersion, kBlockBytes, format, version, block_bytes));
  }
  CheckpointIndex index{.metadata = metadata_from(Members(top.at("metadata"), "metadata")),
                        .ranks = top.integer<std::int32_t>("ranks"),
                        .files = {},
                        .items = {}};
  for (const Json& file : top.list("files")) index.files.push_back(file_from(Members(file, "files")));
  for (const Json& json_item : top.list("items")) {
    const Members in(json_item, fmt::format("items[{}]", index.items.size()));
    StoredItem stored{item_from(in), {}};
    std::vector<HeldExtent> held;
    for (const Json& part : in.list("parts")) {
      stored.parts.push_back(part_from(Members(part, "part of '" + stored.item.name + "'"), stored.item, index.files));
      const StoredPart& p = stored.parts.back();
      held.push_back({p.extent, index.files[static_cast<std::size_t>(p.file)].rank});
    }
    require_as_many_elements(in, stored);
    require_covered(stored.item, held);
    if (!index.items.empty() && index.items.back().item.name >= stored.item.name)
      in.reject("name", "names in ascending order, each once");
    index.items.push_back(std::move(stored));
  }
  return index;
}

}  // namespace

std::uint64_t bytes_of(const CheckpointItem& item, const Extent& extent) noexcept {
  return static_cast<std::uint64_t>(extent.elements()) * size_of(item.dtype);
}
std::uint64_t blocks_of(std::uint64_t bytes) noexcept { return (bytes + kBlockBytes - 1) / kBlockBytes; }

std::string to_text(const CheckpointIndex& index) {
  Json json{
      {"format", std::string(kFormat)}, {"version", kVersion}, {"ranks", index.ranks}, {"block_bytes", kBlockBytes}};
  json["metadata"] = json_of(index.metadata);
  json["files"] = Json::array();
  for (const StoredFile& f : index.files)
    json["files"].push_back({{"name", f.name},
                             {"rank", f.rank},
                             {"header_bytes", f.header_bytes},
                             {"data_bytes", f.data_bytes},
                             {"header_crc", f.header_crc}});
  json["items"] = Json::array();
  for (const StoredItem& stored : index.items) {
    Json item = json_of(stored.item);
    item["parts"] = Json::array();
    for (const StoredPart& p : stored.parts) {
      Json part = json_of(stored.item, p.extent);
      part["file"] = p.file;
      part["offset"] = p.offset;
      part["crcs"] = p.crcs;
      item["parts"].push_back(std::move(part));
    }
    json["items"].push_back(std::move(item));
  }
  std::string text = dumped(json, 1);
  text.resize(text.rfind('}'));
  while (text.ends_with('\n')) text.pop_back();
  const std::uint32_t crc = crc32(std::as_bytes(std::span(text)));
  return fmt::format("{}{}{:08x}\"}}\n", text, kSeal, crc);
}

CheckpointIndex index_from_json(std::string_view json, std::string_view file) {
  try {
    return index_of(parsed(json));
  } catch (const Error& e) {
    throw Error(Code::InvalidArgument, fmt::format("{}: {}", file, e.what()));
  }
}

CheckpointIndex index_from_text(std::string_view text, std::string_view file) {
  const std::size_t end = text.rfind(kSeal);
  const std::string_view body = text.substr(0, end);
  const std::uint32_t crc = crc32(std::as_bytes(std::span(body)));
  if (end == std::string_view::npos || text.substr(end) != fmt::format("{}{:08x}\"}}\n", kSeal, crc))
    throw Error(
        Code::InvalidArgument,
        fmt::format("{}: {} bytes that were cut or changed since they were written; expected a last member crc32 "
                    "of the bytes before it, {:08x}",
                    file, text.size(), crc));
  return index_from_json(text, file);
}

std::string to_text(const std::vector<PartDescription>& parts) {
  Json json = Json::array();
  for (const PartDescription& p : parts) {
    Json one = json_of(p.item);
    one.update(json_of(p.item, p.extent));
    json.push_back(std::move(one));
  }
  return dumped(json, -1);
}

std::vector<PartDescription> descriptions_from_text(std::string_view text) {
  std::vector<PartDescription> parts;
  for (const Json& json : parsed(text)) {
    const Members in(json, "part");
    PartDescription part{item_from(in), {}};
    part.extent = extent_from(in, part.item);
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace sinew::parallel
