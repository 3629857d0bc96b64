#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <sinew/parallel/planner/search/search.hpp>

namespace sinew::parallel {

/// Collects layouts that lose, by the first limit that each hits, and of each class the one that comes nearest.
class Losers {
 public:
  Losers(Planner& planner, std::int64_t memory_bytes) : planner_(planner), most_bytes_(memory_bytes) {}

  void broke(const JobConfig& config, const std::vector<Violation>& rules);
  void too_large(const JobConfig& config, const PlannedMemory& memory);
  /// Than the last of the best, which `best` is the first of. `seconds`: its own, or no more than it takes.
  void slower(const JobConfig& config, Seconds seconds, const PlannedLayout& best);

  /// Finds the fixes, too.
  std::vector<LoserClass> take();

 private:
  struct Nearest {
    LoserClass shown;
    JobConfig config;
    double distance = 0;  // from being among the best; of Time: the least seconds that it may take
    Seconds excess = 0;   // of Time: of that beyond the best's, for what it loses most by
    enum class Kind : std::uint8_t { Rule, Memory, Time } kind = Kind::Rule;
  };

  Nearest& of_class(const std::string& limit, Nearest::Kind kind);
  /// Whether this one comes nearer than those before.
  bool comes_nearer(Nearest& of, const JobConfig& config, double distance);
  /// Simulates the one that comes nearest.
  void time_of(Nearest& nearest);
  std::string fix_of(const Nearest& nearest);
  bool is_good(const JobConfig& config);

  Planner& planner_;
  std::int64_t most_bytes_;
  std::vector<std::string> order_;
  std::map<std::string, Nearest> classes_;
};

}  // namespace sinew::parallel
