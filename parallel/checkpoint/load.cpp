#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/system/file_text.hpp>
#include <sinew/parallel/checkpoint/files/part_reader.hpp>
#include <sinew/parallel/checkpoint/load.hpp>
#include <sinew/parallel/common/all_or_none.hpp>

namespace sinew::parallel {
namespace {

std::string index_file(const std::string& folder) { return folder + "/index.json"; }

std::string index_text(const std::string& folder) {
  auto text = file_text(index_file(folder));
  if (text) return *std::move(text);
  throw Error(Code::System, fmt::format("{}: cannot be read; expected the index of a checkpoint", index_file(folder)));
}

const StoredItem& find(const CheckpointIndex& index, const CheckpointItem& wanted) {
  const auto found = std::ranges::lower_bound(index.items, wanted.name, {},
                                              [](const StoredItem& s) -> const std::string& { return s.item.name; });
  if (found == index.items.end() || found->item.name != wanted.name)
    throw Error(Code::InvalidArgument,
                fmt::format("{} is not among the {} items of the checkpoint", wanted.to_string(), index.items.size()));
  if (found->item != wanted)
    throw Error(Code::InvalidArgument,
                fmt::format("the checkpoint has {}, expected {}", found->item.to_string(), wanted.to_string()));
  return *found;
}

}  // namespace

CheckpointContents read_contents(const std::string& folder) {
  CheckpointIndex index = index_from_text(index_text(folder), index_file(folder));
  CheckpointContents contents{std::move(index.metadata), index.ranks, {}};
  for (StoredItem& stored : index.items) contents.items.push_back(std::move(stored.item));
  return contents;
}

Loaded load_checkpoint(CallGroup all, const std::string& folder, std::span<const CheckpointPart> wanted) {
  const std::string what = "load of " + folder;
  std::string text;
  on_all_or_none(all, what, [&] {
    if (all->rank() == 0) text = index_text(folder);
  });
  text = text_of_root(all, std::move(text), 0);
  CheckpointIndex index;
  std::vector<std::int32_t> is_read;
  on_all_or_none(all, what, [&] {
    index = index_from_text(text, index_file(folder));
    is_read.resize(index.items.size());
    PartReader reader(folder, index);
    for (const CheckpointPart& part : wanted) {
      require_valid(part);
      const StoredItem& stored = find(index, part.item);
      is_read[static_cast<std::size_t>(&stored - index.items.data())] = 1;
      reader.read(stored, part);
    }
  });
  if (!is_read.empty()) all->all_reduce(is_read, ReduceOp::Max, all.options(what.c_str())).get();
  Loaded loaded{std::move(index.metadata), {}};
  for (std::size_t i = 0; i < is_read.size(); ++i) {
    if (is_read[i] == 0) loaded.unread.push_back(std::move(index.items[i].item.name));
  }
  return loaded;
}

}  // namespace sinew::parallel
