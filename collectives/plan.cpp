#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sinew/collectives/plan.hpp>
#include <sinew/collectives/selection/plan_cache.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

std::string time_text(Seconds s) {
  return s < 1e-3 ? fmt::format("{:.2f} us", s * 1e6) : fmt::format("{:.2f} ms", s * 1e3);
}

}  // namespace

Plan::Plan(CollectiveDesc desc, int ranks, std::vector<Candidate> candidates, std::string reason, std::string facts)
    : call_(fmt::format("{} on {} rank{}", desc.to_string(), ranks, ranks == 1 ? "" : "s")),
      bytes_(desc.bytes(ranks)),
      ranks_(ranks),
      candidates_(std::move(candidates)),
      reason_(std::move(reason)),
      facts_(std::move(facts)) {}

const Candidate& Plan::chosen() const {
  if (candidates_.empty()) throw Error(Code::InvalidArgument, "this plan is empty: expected one of Communicator::plan");
  return candidates_.front();
}

const Recipe* Plan::recipe() const noexcept {
  return ready_ != nullptr && ready_->selection.recipe ? &*ready_->selection.recipe : nullptr;
}

const CollectiveDesc& Plan::call() const {
  static_cast<void>(chosen());
  if (ready_ == nullptr) throw Error(Code::InvalidArgument, "this plan is of messages: expected one of a collective");
  return ready_->desc;
}

const Segmentation& Plan::segmentation() const {
  static_cast<void>(call());
  return ready_->selection.segmentation;
}

std::string Plan::explain() const {
  static_cast<void>(chosen());
  std::string text = call_ + (bytes_ == 0 ? "\n" : fmt::format(", {}\n", format_bytes(bytes_)));
  bool first = true;
  for (const Candidate& c : candidates_) {
    const std::string what = fmt::format("{} over {}", c.algorithm == "*" ? "anything" : c.algorithm,
                                         c.transport == "*" ? "any transport" : c.transport);
    if (!c.rejected.empty()) {
      text += fmt::format("  no     {:<38} {}\n", what, c.rejected);
    } else {
      text += fmt::format("  {}{:<38} {:>12}  {}{}\n", first ? "takes  " : "loses  ", what, time_text(c.predicted),
                          c.method, first ? fmt::format("{}({})", c.method.empty() ? "" : " ", reason_) : "");
    }
    first = false;
  }
  return text + fmt::format("  costs: {}\n", facts_);
}

std::string Plan::to_json() const {
  static_cast<void>(chosen());
  nlohmann::json rows = nlohmann::json::array();
  for (const Candidate& c : candidates_) {
    nlohmann::json row = {{"algorithm", c.algorithm}, {"transport", c.transport}};
    if (!c.rejected.empty()) {
      row["rejected"] = c.rejected;
    } else {
      row["predicted_us"] = c.predicted * 1e6;
      row["way"] = c.method;
    }
    rows.push_back(row);
  }
  return nlohmann::json{
      {"call", call_}, {"bytes", bytes_}, {"reason", reason_}, {"costs", facts_}, {"candidates", rows}}
      .dump();
}

}  // namespace sinew
