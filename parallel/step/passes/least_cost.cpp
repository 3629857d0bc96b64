#include <algorithm>
#include <iterator>
#include <set>

#include <sinew/parallel/step/passes/least_cost.hpp>

namespace sinew::parallel {
namespace {

using Choices = std::vector<std::size_t>;

class Elimination {
 public:
  Elimination(const Choices& counts, std::vector<Factor> factors)
      : counts_(counts), factors_(std::move(factors)), values_(counts.size(), 0) {}

  Choices run() && {
    std::set<std::size_t> open;
    for (std::size_t c = 0; c < counts_.size(); ++c) open.insert(c);
    while (!open.empty()) {
      const auto next = std::ranges::min_element(open, {}, [&](std::size_t c) { return entries(neighbours(c)); });
      eliminate(*next);
      open.erase(next);
    }
    for (auto done = done_.rbegin(); done != done_.rend(); ++done)
      values_[done->choice] = done->best[place_in(done->among)];
    return std::move(values_);
  }

 private:
  struct Done {
    std::size_t choice;
    Choices among, best;  // its best value for all values of the others
  };

  std::size_t entries(const Choices& choices) const {
    std::size_t product = 1;
    for (const std::size_t c : choices) product = std::min(product * counts_[c], 2 * kLargestTable);
    return product;
  }

  /// The choices that some factor has together with this one.
  Choices neighbours(std::size_t choice) const {
    std::set<std::size_t> all;
    for (const Factor& f : factors_) {
      if (std::ranges::binary_search(f.choices, choice)) all.insert(f.choices.begin(), f.choices.end());
    }
    all.erase(choice);
    return {all.begin(), all.end()};
  }

  /// Of values_ in a table of these choices.
  std::size_t place_in(const Choices& choices) const {
    std::size_t place = 0;
    for (const std::size_t c : choices) place = place * counts_[c] + values_[c];
    return place;
  }

  /// The next values of these choices; false: that was the last.
  bool advance(const Choices& choices) {
    for (auto c = choices.rbegin(); c != choices.rend(); ++c) {
      if (++values_[*c] < counts_[*c]) return true;
      values_[*c] = 0;
    }
    return false;
  }

  void eliminate(std::size_t choice) {
    const Choices among = neighbours(choice);
    std::vector<Factor> mine;
    const auto lacks = [&](const Factor& f) { return !std::ranges::binary_search(f.choices, choice); };
    const auto from = std::ranges::stable_partition(factors_, lacks).begin();
    std::move(from, factors_.end(), std::back_inserter(mine));
    factors_.erase(from, factors_.end());
    // Too much to go through: it stays 0, and its factors go on without it.
    const bool stays = entries(among) > kLargestTable;
    if (stays) {
      for (const Factor& f : mine) factors_.push_back(without(f, choice));
      return;
    }
    Factor rest{among, {}};
    Done done{choice, among, {}};
    do {
      Cost least;
      std::size_t best = 0;
      for (values_[choice] = 0; values_[choice] < counts_[choice]; ++values_[choice]) {
        Cost cost;
        for (const Factor& f : mine) cost += f.costs[place_in(f.choices)];
        if (values_[choice] == 0 || cost < least) least = cost, best = values_[choice];
      }
      rest.costs.push_back(least);
      done.best.push_back(best);
    } while (advance(among));
    values_[choice] = 0;
    factors_.push_back(std::move(rest));
    done_.push_back(std::move(done));
  }

  Factor without(const Factor& factor, std::size_t choice) {
    Factor rest{factor.choices, {}};
    std::erase(rest.choices, choice);
    do rest.costs.push_back(factor.costs[place_in(factor.choices)]);
    while (advance(rest.choices));
    return rest;
  }

  const Choices& counts_;
  std::vector<Factor> factors_;
  Choices values_;
  std::vector<Done> done_;
};

}  // namespace

std::vector<std::size_t> least_cost(const std::vector<std::size_t>& counts, std::vector<Factor> factors) {
  return Elimination(counts, std::move(factors)).run();
}

}  // namespace sinew::parallel
