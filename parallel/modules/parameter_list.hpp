#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/keyed_random.hpp>
#include <sinew/parallel/parameter/parameter.hpp>

namespace sinew::parallel {

/// The initial value of element k of the whole parameter. The random numbers are keyed by the parameter's name, so that
/// values do not depend on the layout.
using InitialRule = std::function<double(const KeyedRandom& random, std::int64_t k)>;

SINEW_API InitialRule all_equal_to(double value);
/// Source: normal distribution with mean 0, as GPT-2 has it.
SINEW_API InitialRule normally_distributed(double deviation);

/// The parameters of the modules of a rank, in the order in which the modules declare them.
class SINEW_API ParameterList {
 public:
  /// like: dtype, gradient, spread and unit of parameters whose module does not say otherwise. one_unit: all parameters
  /// stay in the unit of `like`, whatever modules say.
  explicit ParameterList(DataParameter like, bool one_unit = false)
      : like_(std::move(like)), outer_unit_(like_.unit), one_unit_(one_unit) {}

  /// The record that a module completes: its dtype, gradient, spread and unit.
  const DataParameter& like() const noexcept { return like_; }
  /// Parameters that are declared between both calls belong to this unit.
  /// Errors: InvalidArgument naming both units if one begins within another.
  void begin_unit(const std::string& unit);
  void end_unit();
  /// Returns the number of the parameter. Dense parameters and those of experts are held by data parallelism of their
  /// own, because copies of experts are along other axes. The numbers of experts' parameters are negative.
  /// Errors: InvalidArgument if a parameter of this path was declared before. InvalidArgument for a part of a parameter
  ///         whose spread has no axis beside those of like(): other ranks have the other parts.
  std::int32_t add(DataParameter parameter, InitialRule initial) {
    return add(dense_, std::move(parameter), std::move(initial));
  }
  std::int32_t add_of_experts(DataParameter parameter, InitialRule initial) {
    return -1 - add(experts_, std::move(parameter), std::move(initial));
  }

  /// Parameters of one kind, and their initial values for DataParallel.
  struct Family {
    std::vector<DataParameter> parameters{};
    std::vector<InitialRule> rules{};

    SINEW_API InitialValues initial(std::uint64_t seed) const;
  };
  const Family& dense() const noexcept { return dense_; }
  const Family& experts() const noexcept { return experts_; }

 private:
  std::int32_t add(Family& family, DataParameter parameter, InitialRule initial);

  DataParameter like_;
  std::string outer_unit_;  // of parameters outside units
  bool is_in_unit_ = false;
  bool one_unit_;
  Family dense_, experts_;
};

}  // namespace sinew::parallel
