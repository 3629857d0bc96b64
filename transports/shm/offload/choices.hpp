#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/transports/shm/model/call_costs.hpp>
#include <sinew/transports/shm/model/levels.hpp>
#include <sinew/transports/shm/offload/facts.hpp>

namespace sinew::shm {

/// Chooses the protocols of a group's calls, and predicts their times. Up to kMostScaled ranks, the measured times of 2
/// ranks are scaled, and the model only tells when a tree is faster. On more ranks the model decides, if each rank has
/// a core. The choice depends on facts, levels and call only, so it is equal on all ranks.
class SINEW_API Choices {
 public:
  static constexpr int kMostScaled = 8;

  Choices(Levels levels, const Facts& facts);

  const Levels& levels() const noexcept { return costs_.levels(); }
  const CallCosts& costs() const noexcept { return costs_; }
  /// `shown`: Contribution::shown.
  Protocol protocol_of(const CollectiveDesc& desc, std::uint64_t shown) const noexcept {
    return knows_trees_ ? with_trees(desc, shown) : shm::protocol_of(desc, ranks_, facts_, shown);
  }
  Protocol protocol_of(const CollectiveDesc& desc) const noexcept;
  Seconds predict(const CollectiveDesc& desc) const;
  /// For Plan::explain(), such as "tree of 4 over 16 caches, 8 NUMA nodes, 2 sockets".
  std::string describe(const CollectiveDesc& desc) const { return describe(desc, facts_); }
  /// The same with other facts about how ordinary memory is read.
  std::string describe(const CollectiveDesc& desc, const Facts& facts) const;

 private:
  static constexpr std::size_t kLengths = 28;  // by the logarithm of bytes; the last one is of all longer calls
  static constexpr std::size_t kModelled = 5;  // collectives
  /// The fastest protocols by length.
  struct Row {
    std::array<Protocol, kLengths> of_all{};
    std::array<Protocol, kLengths> without_trees{};
  };

  void fill_rows();
  bool may_use_tree(const CollectiveDesc& desc) const noexcept;
  Protocol with_trees(const CollectiveDesc& desc, std::uint64_t shown) const noexcept;
  Protocol forced(const CollectiveDesc& desc, std::uint64_t shown) const noexcept;
  Protocol by_model(const CollectiveDesc& desc, std::uint64_t shown) const noexcept;

  int ranks_;
  Facts facts_;
  CallCosts costs_;
  bool models_ = false;       // the rows are filled
  bool knows_trees_ = false;  // some calls may take a tree; never on 2 ranks
  std::array<Row, kModelled> rows_{};
};

}  // namespace sinew::shm
