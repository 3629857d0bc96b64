#pragma once

#include <span>
#include <vector>

namespace sinew::tools {

/// The ranks of a measurement as they meet and exchange numbers. None of this is timed.
class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  /// Returns on no rank before all ranks have called it, and on all at about the same time.
  virtual void meet() = 0;
  /// The numbers of all ranks, by rank. Each rank gives equally many.
  virtual std::vector<double> gather(std::span<const double> mine) = 0;

  double largest(double mine);
  double sum(double mine);
};

}  // namespace sinew::tools
