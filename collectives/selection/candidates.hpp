#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/collectives/selection/facts.hpp>
#include <sinew/collectives/selection/group_shape.hpp>
#include <sinew/collectives/selection/option.hpp>

namespace sinew {

/// The candidates for one call of a group, and the choice between them. The chosen one stands first, then the others by
/// predicted time, then the rejected.
class Candidates {
 public:
  /// `bytes`: the size that the choice goes by. `options`: with their predicted times, in any order.
  /// Errors: Error{InvalidArgument} where nothing can run the call or a user's rule leaves nothing, with every reason.
  Candidates(const CollectiveDesc& desc, std::uint64_t bytes, const Facts& facts, const GroupShape& shape,
             std::vector<Option> options);

  const Option& chosen() const noexcept { return options_.front(); }
  /// Why it was chosen.
  const std::string& reason() const noexcept { return reason_; }
  /// Where the times come from.
  const std::string& source() const noexcept { return source_; }
  /// All candidates, for Plan::candidates: without the algorithm or offload that would run them.
  std::vector<Candidate> list() const;

 private:
  bool is_usual() const noexcept;
  /// Replaces predicted times of calls on device memory by those that earlier jobs saw. false: there are none.
  bool use_seen();
  /// Puts measured times in the place of predicted ones, where there are any for groups of this shape. false: nowhere.
  bool use_tuned();
  /// true: the user wants a certain algorithm for this call.
  bool apply_rules();
  bool has(std::string_view algorithm) const;
  bool serves_devices_only(std::string_view name) const;
  /// Rejects what cannot be cut and would hold too much; there is always one that can be.
  void keep_scratch_short();
  void sort();
  [[noreturn]] void refuse() const;
  /// Puts another candidate first where predictions do not tell the best ones apart.
  void break_ties();

  const CollectiveDesc& desc_;
  const std::uint64_t bytes_;
  const Facts& facts_;
  const GroupShape& shape_;
  std::vector<Option> options_;
  std::string devices_;  // device_kind() of the group, for calls on device memory
  std::string reason_ = "the least predicted time";
  std::string source_;
};

}  // namespace sinew
