#include "rank_record.hpp"

#include <sinew/core/base/version.hpp>
#include <sinew/core/base/wire.hpp>
#include <sinew/core/module_entry.hpp>
#include <sinew/core/system/host_name.hpp>
#include <sinew/tools/info/doctor/finding/lists.hpp>

namespace sinew::doctor {

RankRecord record_of_this_rank(const Config& config) {
  RankRecord record{std::string(version()), kAbiId, place_of_this_process(config), host_name(), own_memory(), {}};
  for (const ConfigEntry& e : describe(config)) record.settings.push_back({std::string(e.name), e.value});
  return record;
}

Bytes to_bytes(const RankRecord& record) {
  WireWriter to;
  to.text(record.version).text(record.build).bytes(sinew::to_bytes(record.place)).text(record.host_name);
  to.value(record.memory);
  write_list(to, record.settings, [&](const Setting& s) { to.text(s.name).text(s.value); });
  return to.take();
}

RankRecord rank_record_from(const Bytes& bytes) {
  WireReader from(bytes);
  RankRecord record;
  record.version = from.text();
  if (record.version != version()) return record;
  record.build = from.text();
  record.place = rank_place_from_bytes(from.owned_bytes());
  record.host_name = from.text();
  record.memory = from.value<PeerMemory>();
  record.settings = read_list(from, [&] {
    std::string name = from.text();
    return Setting{std::move(name), from.text()};
  });
  return record;
}

}  // namespace sinew::doctor
