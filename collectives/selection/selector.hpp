#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sinew/collectives/plan.hpp>
#include <sinew/collectives/schedule/cutting.hpp>
#include <sinew/collectives/selection/facts.hpp>
#include <sinew/collectives/selection/recipe.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/offload.hpp>

namespace sinew {

/// Pieces large enough to move at full rate and small enough that neighbours overlap, and how many at a time.
inline constexpr Cutting kCutting{.segment_bytes = 512 << 10, .depth = 4};

/// Between hosts a piece is asked for, and its end told, in as long as a link takes for several: so many keep it busy.
inline constexpr std::uint32_t kDepthAcrossHosts = 8;

/// An offload that one communicator has.
struct NamedOffload {
  std::string transport;
  std::unique_ptr<CollectiveOffload> offload;
};

/// Which transport each pair of a group takes: one for all, or the best of each class of links.
struct TransportSet {
  std::string label;  ///< "shm", "shm+tcp"
  std::map<LinkClass, std::string> by_class;
  bool by_nic = false;  ///< what leaves a host leaves it by the NIC of its rank, else by one that all share
  std::uint64_t most_scratch = kScratchBytes;  ///< that a call on it may hold beside its buffers
};

/// The outcome: what to run, and the account of it.
struct Selection {
  Plan plan;
  NamedOffload* offload = nullptr;
  std::optional<Recipe> recipe;  ///< where no offload was taken
  bool staged = false;           ///< device memory that goes through the host: neither of the two above
  TransportSet transports;
  Cutting cutting;
};

/// Which part of a rank's messages, and of their bytes, leaves its host; what does not goes over the links inside.
struct Leaving {
  double messages = 1;    ///< of the longest chain of messages
  double bytes = 1;       ///< of those
  double of_busiest = 1;  ///< bytes, of the rank of which most leave
};

/// Chooses for one group: a pure function of the call and of the shared table, so that all ranks choose alike.
class SINEW_API Selector {
 public:
  /// `numa_nodes`: of each rank on its host, below 0: bound to none; empty: nobody knows.
  Selector(const Facts& facts, std::vector<int> world_ranks, std::span<NamedOffload> offloads,
           const std::vector<int>& numa_nodes = {});

  /// Errors: Error{InvalidArgument} where nothing can run the call or a user's rule leaves nothing, with every reason,
  ///         and where a LayoutInvariant call does not fit its leaf blocks.
  Selection select(const CollectiveDesc& desc) const;
  /// Which transport carries messages between two ranks of the group (their places in it).
  const std::string& transport_between(const TransportSet& set, int a, int b) const;
  /// The set for point to point: the cheapest for each class.
  const TransportSet& cheapest() const noexcept { return cheapest_; }

 private:
  struct Option {
    Candidate candidate;
    NamedOffload* offload = nullptr;
    std::optional<Recipe> recipe{};
    const TransportSet* transports = nullptr;
    bool staged = false;
    bool whole = false;         ///< its chunks cannot be cut
    std::uint64_t scratch = 0;  ///< bytes beside the user's buffers, if not cut
    double messages = 1e9;      ///< sent and received by the ranks that were looked at; as given: unknown
  };
  /// Which links of a set.
  enum class Links : std::uint8_t { All, InsideHosts, AcrossHosts };

  /// What choices and rules go by.
  std::uint64_t size_to_select_by(const CollectiveDesc& desc) const;
  void find_levels(const std::vector<int>& numa_nodes);
  Selection select_message(const CollectiveDesc& desc) const;
  Option staged_option(const CollectiveDesc& desc) const;
  bool serves_devices_only(const std::string& name) const;
  std::vector<Option> options(const CollectiveDesc& desc) const;
  /// Puts measured times in the place of predicted ones, where there are any for groups of this shape. false: nowhere.
  bool use_tuned(const CollectiveDesc& desc, std::vector<Option>& options) const;
  /// true: the user wants a certain algorithm for this call.
  bool apply_rules(const CollectiveDesc& desc, std::vector<Option>& options, std::string& reason) const;
  /// Of a way that holds so much beside the buffers, if not cut.
  Cutting cutting_on(const TransportSet& set, std::uint64_t scratch_bytes) const noexcept;
  /// Rejects what cannot be cut and would hold too much; there is always one that can be.
  static void keep_scratch_short(std::vector<Option>& options);
  /// Of a rank: how long its links are busy, and how long the chains of messages take, of which each segment's is one
  /// and some are under way at a time. A call takes as long as the longer of the two; what is pipelined, the first.
  struct Times {
    Seconds busy = 0, in_turns = 0;
    Seconds across = 0;  ///< of the first, between hosts
  };
  /// `cost` of a call on `bytes`, over the slowest of these links.
  Times on_links(const CollectiveDesc& desc, const AlgorithmCost& cost, double bytes, const TransportSet& set,
                 Links links, const Cut& cut, const Leaving& leaving = {}) const;
  /// What it costs a rank to give so many messages for other hosts away.
  Seconds sending(double messages, const TransportSet& set) const;
  /// At least as long: what a NIC takes to send what leaves its host by it, however many ranks send at a time.
  Seconds crossing(std::uint64_t leaving, const TransportSet& set) const;
  /// Of what crosses hosts in a composition, the part that one NIC sends: as much as ranks share it.
  double part_of_nic(const CollectiveDesc& desc, const TransportSet& set) const;
  /// Fills in what follows from its links.
  void complete(TransportSet& set) const;
  /// One for each set.
  void add_options(const CollectiveDesc& desc, const Algorithm& algorithm, std::vector<Option>& options) const;
  /// The best composition on these transports; rejected where there is none.
  Option composed_option(const CollectiveDesc& desc, const TransportSet& set) const;
  Seconds predict(const CollectiveDesc& desc, const Composition& how, const TransportSet& set, const Cut& cut) const;
  template <class Add>
  void for_each_stage(const CollectiveDesc& desc, const Composition& how, const Add& add) const;
  std::uint64_t scratch_of(const CollectiveDesc& desc, const Composition& how, const TransportSet& set) const;
  TransportSet cheapest_set(double bytes) const;

  const Facts& facts_;
  std::vector<int> world_ranks_;
  std::span<NamedOffload> offloads_;
  std::vector<LinkClass> classes_;
  Levels levels_;                  ///< of several hosts only
  std::vector<int> order_;         ///< in which neighbours are near; empty: as they are numbered
  std::vector<int> largest_host_;  ///< places of the ranks on the host with most of them
  std::vector<int> nic_of_;        ///< by place in the group
  double busiest_nic_ = 1;         ///< of that host's ranks the part that has the NIC that most of them have
  int hosts_ = 1;
  bool tuned_ = false;  ///< Facts::tuned is of groups of this shape
  int crowd_ = 0;       ///< ranks of the group on the host where most of them share a core
  double turns_ = 1;    ///< how many of them share one there
  std::vector<TransportSet> sets_;
  std::vector<Candidate> unusable_sets_;
  TransportSet cheapest_;
};

}  // namespace sinew
