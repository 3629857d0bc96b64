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
  /// Adds a layout that is slower than all of the best layouts. `best`: the fastest layout. `seconds`: the time of the
  /// slower layout, or a lower bound of it.
  void slower(const JobConfig& config, Seconds seconds, const PlannedLayout& best);

  /// Returns all classes. It simulates the nearest layout of each class of slower layouts, and looks for fixes.
  std::vector<LoserClass> take();

 private:
  struct Nearest {
    LoserClass shown{};
    JobConfig config{};
    /// How far the layout is from the best ones: the number of broken rules, the bytes of memory, or the seconds of a
    /// step.
    double distance = 0;
    /// For Time: the seconds by which the layout's worst part exceeds the same part of the best layout.
    Seconds excess = 0;
    enum class Kind : std::uint8_t { Rule, Memory, Time } kind = Kind::Rule;
  };

  Nearest& of_class(const std::string& limit, Nearest::Kind kind);
  /// Makes this layout the nearest of its class if it comes nearer than all before. Returns whether it does.
  bool comes_nearer(Nearest& of, const JobConfig& config, double distance);
  /// Simulates the nearest layout of a class, and writes its time into the class.
  void time_of(Nearest& nearest);
  std::string fix_of(const Nearest& nearest);
  bool is_good(const JobConfig& config);

  Planner& planner_;
  std::int64_t most_bytes_;
  std::vector<std::string> order_;
  std::map<std::string, Nearest> classes_;
};

}  // namespace sinew::parallel
