#include "metrics.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sinew/core/error.hpp>

namespace gpt {
namespace {

using nlohmann::json;

[[noreturn]] void complain(const std::string& file, const char* doing) {
  throw sinew::Error(sinew::Code::System,
                     fmt::format("metrics: cannot {} '{}': {}", doing, file, std::strerror(errno)));
}

/// Lines of a run that is gone on with, of steps before this one.
std::vector<std::string> lines_before(const std::string& file, std::int64_t first) {
  std::vector<std::string> kept;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const json object = json::parse(line, nullptr, false);
    if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer()) continue;
    if (object["step"].get<std::int64_t>() < first) kept.push_back(std::move(line));
  }
  return kept;
}

}  // namespace

Metrics::Metrics(std::string file, std::int64_t first) : name_(std::move(file)) {
  if (name_.empty()) return;
  const std::vector<std::string> kept = first > 0 ? lines_before(name_, first) : std::vector<std::string>{};
  errno = 0;
  file_.open(name_, std::ios::trunc);
  for (const std::string& line : kept) file_ << line << '\n';
  file_.flush();
  if (!file_) complain(name_, "write");
}

void Metrics::add(const StepReport& r) {
  if (name_.empty()) return;
  json line{{"step", r.step},
            {"loss", r.loss},
            {"tokens_per_s", r.tokens_per_s},
            {"exposed_s", r.exposed_s},
            {"seconds", r.seconds},
            {"norm", r.norm},
            {"rate", r.rate}};
  if (const sp::RouterReport& of = r.routers; of.routed > 0)
    line.update({{"auxiliary", of.auxiliary},
                 {"z", of.z},
                 {"routed", of.routed},
                 {"dropped", of.dropped},
                 {"imbalance", of.imbalance},
                 {"busiest_block", r.worst_block},
                 {"busiest_expert", of.worst_expert}});
  if (r.scaling)
    line.update({{"loss_scale", r.loss_scale}, {"skipped", r.is_skipped}, {"skipped_steps", r.scaling->skipped_steps}});
  errno = 0;
  file_ << line.dump() << '\n' << std::flush;
  if (!file_) complain(name_, "write");
}

std::string line_of(const StepReport& r) {
  const double exposed = r.seconds > 0 ? 100 * r.exposed_s / r.seconds : 0;
  std::string line = fmt::format("step {:4} loss {:.4f} norm {:.2f} {:.0f} tokens/s exposed {:.1f} %", r.step, r.loss,
                                 r.norm, r.tokens_per_s, exposed);
  if (r.scaling) line += fmt::format(" scale {} skipped {}", r.loss_scale, r.scaling->skipped_steps);
  const sp::RouterReport& of = r.routers;
  if (of.routed == 0) return line;
  line += fmt::format(" load {:.2f} of {:.2f} (expert {} of block {})", of.imbalance, of.most, of.worst_expert,
                      r.worst_block);
  if (of.dropped > 0)
    line += fmt::format(" dropped {:.1f} %", 100 * static_cast<double>(of.dropped) / static_cast<double>(of.routed));
  return line;
}

}  // namespace gpt
