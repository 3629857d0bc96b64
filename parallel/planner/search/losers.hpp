#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <sinew/parallel/planner/search/search.hpp>

namespace sinew::parallel {

/// Collects layouts that are not among the best, by the first limit that each one breaks. For each class it keeps the
/// layout that comes nearest to the best.
class Losers {
 public:
  Losers(Planner& planner, std::int64_t memory_bytes) : planner_(planner), most_bytes_(memory_bytes) {}

  void broke(const JobConfig& config, const std::vector<Violation>& rules);
  void too_large(const JobConfig& config, const PlannedMemory& memory);
  /// For a layout that is slower than the last of the best; `best` is the first of the best. `seconds`: the time of the
  /// layout, or a lower bound of it.
  void slower(const JobConfig& config, Seconds seconds, const PlannedLayout& best);

  /// Also finds the fixes.
  std::vector<LoserClass> take();

 private:
  struct Nearest {
    LoserClass shown;
    JobConfig config;
    /// how far it is from the best; for Time, the lower bound in seconds
    double distance = 0;  // from being among the best; of Time: the least seconds that it may take
    /// for Time: how much longer than the best it takes in its worst part
    Seconds excess = 0;  // of Time: of that beyond the best's, for what it loses most by
    enum class Kind : std::uint8_t { Rule, Memory, Time } kind = Kind::Rule;
  };

  Nearest& of_class(const std::string& limit, Nearest::Kind kind);
  /// Whether this layout comes nearer than all before.
  bool comes_nearer(Nearest& of, const JobConfig& config, double distance);
  /// Simulates the layout that comes nearest.
  void time_of(Nearest& nearest);
  std::string fix_of(const Nearest& nearest);
  bool is_good(const JobConfig& config);

  Planner& planner_;
  std::int64_t most_bytes_;
  std::vector<std::string> order_;
  std::map<std::string, Nearest> classes_;
};

}  // namespace sinew::parallel
