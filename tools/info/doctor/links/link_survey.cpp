#include "link_survey.hpp"

#include <sinew/tools/info/doctor/finding/lists.hpp>

#include "link_repeats.hpp"
#include "tournament.hpp"

namespace sinew::doctor {
namespace {

/// What one rank does in a survey.
class Surveyor {
 public:
  Surveyor(const Launch& job, int host, std::span<const HostRecord> records)
      : job_(job), host_(host), records_(records) {}

  std::vector<LinkResult> try_own() const {
    std::vector<LinkResult> results;
    if (host_ < 0) return results;
    for (const HostAddress& a : record(host_).addresses) {
      if (a.works) results.push_back(probe({a, a}, host_));
    }
    return results;
  }

  /// One after the other in each pair; a round of the exchange keeps the pairs in step.
  std::vector<LinkResult> try_others(const ShowRound& show) const {
    const int hosts = static_cast<int>(records_.size());
    const int rounds = tournament_rounds(hosts);
    std::vector<LinkResult> results;
    for (int round = 0; round < rounds; ++round) {
      show(round, rounds);
      const int partner = host_ < 0 ? -1 : tournament_partner(round, host_, hosts);
      for (const bool lower_asks : {true, false}) {
        if (partner >= 0 && (host_ < partner) == lower_asks) {
          for (const Link& link : links_between(record(host_).addresses, record(partner).addresses)) {
            results.push_back(probe(link, partner));
          }
        }
        static_cast<void>(job_.exchange.all_gather({}));
      }
    }
    return results;
  }

  LinkResult probe(const Link& link, int to) const {
    LinkResult result = probe_link(link, {record(to).port, record(to).claim, job_.secret});
    result.from_host = host_;
    result.to_host = to;
    return result;
  }

 private:
  const HostRecord& record(int host) const { return records_[static_cast<std::size_t>(host)]; }

  const Launch& job_;
  int host_;
  std::span<const HostRecord> records_;
};

/// Everybody's, in the order of ranks.
std::vector<LinkResult> collected(const Exchange& exchange, const std::vector<LinkResult>& mine) {
  WireWriter to;
  write_list(to, mine, [&](const LinkResult& r) { write(to, r); });
  std::vector<LinkResult> all;
  for (const Bytes& bytes : exchange.all_gather(to.take())) {
    WireReader from(bytes);
    for (LinkResult& r : read_list(from, [&] { return read_link_result(from); })) all.push_back(std::move(r));
  }
  return all;
}

}  // namespace

std::vector<LinkResult> survey_links(const Launch& job, int host, std::span<const HostRecord> records,
                                     const ShowRound& show) {
  const Surveyor surveyor(job, host, records);
  if (records.size() == 1) return collected(job.exchange, surveyor.try_own());
  std::vector<LinkResult> all = collected(job.exchange, surveyor.try_others(show));
  repeat_slow_links(job.exchange, host, all,
                    [&](const LinkResult& slow) { return surveyor.probe(slow.link, slow.to_host); });
  return all;
}

}  // namespace sinew::doctor
