#pragma once

#include <cstdint>
#include <functional>
#include <map>
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
  /// like: dtype, gradient, spread and unit of parameters whose module does not say otherwise.
  explicit ParameterList(DataParameter like)
      : like_(std::move(like)), outer_unit_(like_.unit), shared_unit_(like_.unit) {}

  /// The record that a module completes: its dtype, gradient, spread and unit.
  const DataParameter& like() const noexcept { return like_; }
  /// Parameters that are declared between both calls belong to this unit.
  /// Errors: InvalidArgument naming both units if one begins within another.
  void begin_unit(const std::string& unit);
  void end_unit();
  /// Parameters that are declared outside units from now on belong to this unit, which is a stage of a pipeline. Shared
  /// ones stay in the unit that the list began with.
  void set_outer_unit(const std::string& unit) {
    outer_unit_ = like_.unit = unit;
    has_stages_ = true;
  }
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
  /// Adds a dense parameter, or finds the one of this path that another module has added. Each of the modules reports a
  /// gradient in a backward pass. The parameter belongs to the unit that surrounds all others.
  /// Errors: as add(). InvalidArgument if the parameter that was added before has another shape or another part here.
  std::int32_t add_shared(DataParameter parameter, InitialRule initial);
  /// Adds a copy of a parameter that another stage of the pipeline has. PipelinedModel gets its values from there at
  /// the beginning of a step, and sends its gradient back at the end. Data parallelism does not know it.
  std::int32_t add_copy(DataParameter parameter);
  static bool is_copy(std::int32_t parameter) noexcept { return parameter >= kFirstCopy; }
  static std::int32_t copy(std::size_t number) noexcept { return kFirstCopy + static_cast<std::int32_t>(number); }
  static std::size_t number_of_copy(std::int32_t parameter) noexcept {
    return static_cast<std::size_t>(parameter - kFirstCopy);
  }

  /// Parameters of one kind, and their initial values for DataParallel.
  struct Family {
    std::vector<DataParameter> parameters{};
    std::vector<InitialRule> rules{};

    SINEW_API InitialValues initial(std::uint64_t seed) const;
  };
  const Family& dense() const noexcept { return dense_; }
  const Family& experts() const noexcept { return experts_; }
  bool is_shared(const std::string& path) const noexcept { return shared_.contains(path); }
  /// The modules of this rank that report a gradient of each shared parameter, by its path.
  const std::map<std::string, std::int32_t>& shared() const noexcept { return shared_; }
  const std::vector<DataParameter>& copies() const noexcept { return copies_; }

 private:
  static constexpr std::int32_t kFirstCopy = 1 << 30;
  std::int32_t add(Family& family, DataParameter parameter, InitialRule initial);

  DataParameter like_;
  std::string outer_unit_;  // of parameters outside units
  std::string shared_unit_;
  bool is_in_unit_ = false, has_stages_ = false;
  Family dense_, experts_;
  std::vector<DataParameter> copies_;
  std::map<std::string, std::int32_t> shared_;
};

}  // namespace sinew::parallel
