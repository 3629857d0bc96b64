#include <algorithm>
#include <set>
#include <utility>

#include <sinew/parallel/step_graph/passes/least_cost.hpp>

namespace sinew::parallel {
namespace {

using Choices = std::vector<std::size_t>;

class Elimination {
 public:
  Elimination(const Choices& counts, std::vector<Factor> factors)
      : counts_(counts), near_(counts.size()), factors_of_(counts.size()), values_(counts.size(), 0) {
    for (Factor& f : factors) add(std::move(f));
  }

  Choices run() && {
    // Pairs of a choice and, before it, the entries of the table that its elimination makes.
    std::set<std::pair<std::size_t, std::size_t>> open;
    Choices size(counts_.size());
    for (std::size_t c = 0; c < counts_.size(); ++c) open.emplace(size[c] = entries(near_[c]), c);
    while (!open.empty()) {
      const std::size_t next = open.begin()->second;
      open.erase(open.begin());
      const std::set<std::size_t> changed = near_[next];
      eliminate(next);
      for (const std::size_t c : changed) {
        open.erase({size[c], c});
        open.emplace(size[c] = entries(near_[c]), c);
      }
    }
    for (auto done = done_.rbegin(); done != done_.rend(); ++done)
      values_[done->choice] = done->best[place_in(done->among)];
    return std::move(values_);
  }

 private:
  struct Done {
    std::size_t choice;
    Choices among, best;  // best: by values of `among`, the best value of `choice`
  };

  std::size_t entries(const std::set<std::size_t>& choices) const {
    std::size_t product = 1;
    for (const std::size_t c : choices) product = std::min(product * counts_[c], 2 * kLargestTable);
    return product;
  }

  /// The index of the present values_ in a table of these choices.
  std::size_t place_in(const Choices& choices) const {
    std::size_t place = 0;
    for (const std::size_t c : choices) place = place * counts_[c] + values_[c];
    return place;
  }

  /// Sets the choices to their next values. Returns false after the last ones.
  bool advance(const Choices& choices) {
    for (auto c = choices.rbegin(); c != choices.rend(); ++c) {
      if (++values_[*c] < counts_[*c]) return true;
      values_[*c] = 0;
    }
    return false;
  }

  void add(Factor factor) {
    for (const std::size_t c : factor.choices) {
      near_[c].insert(factor.choices.begin(), factor.choices.end());
      near_[c].erase(c);
      factors_of_[c].push_back(factors_.size());
    }
    factors_.push_back(std::move(factor));
  }

  /// Removes the factors that depend on a choice, and returns them.
  std::vector<Factor> take(std::size_t choice) {
    std::vector<Factor> mine;
    for (const std::size_t f : factors_of_[choice]) {
      if (std::ranges::binary_search(factors_[f].choices, choice)) mine.push_back(std::exchange(factors_[f], {}));
    }
    for (const std::size_t c : near_[choice]) near_[c].erase(choice);
    return mine;
  }

  void eliminate(std::size_t choice) {
    const Choices among(near_[choice].begin(), near_[choice].end());
    const bool stays = entries(near_[choice]) > kLargestTable;
    const std::vector<Factor> mine = take(choice);
    if (stays) {  // the table would be too large: the choice becomes 0 in all its factors
      for (const Factor& f : mine) add(without(f, choice));
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
    add(std::move(rest));
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
  std::vector<std::set<std::size_t>> near_;  // by choice: the other choices in its factors
  std::vector<Choices> factors_of_;          // by choice: indices of factors_
  std::vector<Factor> factors_;
  Choices values_;
  std::vector<Done> done_;
};

}  // namespace

std::vector<std::size_t> least_cost(const std::vector<std::size_t>& counts, std::vector<Factor> factors) {
  return Elimination(counts, std::move(factors)).run();
}

}  // namespace sinew::parallel
