#include <map>
#include <string_view>

#include <sinew/core/system/host_name.hpp>
#include <sinew/parallel/mesh/agreement.hpp>
#include <sinew/parallel/reshard/gathered_facts.hpp>

namespace sinew::parallel {

std::vector<std::vector<PartDescription>> gather_parts(CallGroup all, std::span<const CheckpointPart> mine,
                                                       const char* label) {
  std::vector<PartDescription> described;
  for (const CheckpointPart& part : mine) described.push_back({part.item, part.extent});
  std::vector<std::vector<PartDescription>> of_ranks;
  for (const std::string& text : texts_of_all(all, to_text(described), all.options(label)))
    of_ranks.push_back(descriptions_from_text(text));
  return of_ranks;
}

std::vector<int> gather_hosts(CallGroup all, const char* label) {
  const std::vector<std::string> names = texts_of_all(all, host_name(), all.options(label));
  std::map<std::string_view, int> numbers;
  std::vector<int> of_ranks;
  for (const std::string& name : names)
    of_ranks.push_back(numbers.try_emplace(name, static_cast<int>(numbers.size())).first->second);
  return of_ranks;
}

}  // namespace sinew::parallel
