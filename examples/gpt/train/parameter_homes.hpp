#pragma once

#include <cstdint>
#include <vector>

#include <sinew/core/buffer.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/job/job.hpp>

#include "../parameters.hpp"

namespace gpt {

/// Where the parameters of a model's list are held: dense ones and those of experts by data parallelism of their own,
/// which numbers them anew.
class ParameterHomes {
 public:
  /// here: numbers in the model's list of what this rank has, ascending; list: all of it.
  ParameterHomes(sinew::parallel::Job& job, const std::vector<std::int32_t>& here,
                 const std::vector<ParameterInfo>& list);

  sinew::Buffer parameter(int p) { return home(p).data->parameter(home(p).number); }
  sinew::Buffer gradient(int p) { return home(p).data->gradient(home(p).number); }
  void gradient_ready(int p) { home(p).data->gradient_ready(home(p).number); }
  /// Makes the first element of this gradient infinite.
  void make_infinite(int p);

 private:
  struct Home {
    sinew::parallel::DataParallel* data = nullptr;  // null: not here
    std::int32_t number = 0;
  };
  const Home& home(int p) const { return homes_[static_cast<std::size_t>(p)]; }

  std::vector<Home> homes_;
};

}  // namespace gpt
