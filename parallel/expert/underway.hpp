#pragma once

#include <utility>
#include <vector>

#include <sinew/core/error.hpp>
#include <sinew/core/work.hpp>

namespace sinew::parallel {

/// Exchanges of a passage that are in flight, by chunk. Their buffers are theirs: whoever goes waits for them.
class ChunksUnderway {
 public:
  ChunksUnderway() = default;
  ChunksUnderway(const ChunksUnderway&) = delete;
  ChunksUnderway& operator=(const ChunksUnderway&) = delete;
  ~ChunksUnderway() {
    for (Work& work : works_) static_cast<void>(work.wait());
  }

  void add(Work work) { works_.push_back(std::move(work)); }
  void get(std::size_t chunk) { works_[chunk].get(); }
  /// All that are left. Errors: that of the first.
  void get_all() {
    for (Work& work : works_) work.get();
    works_.clear();
  }
  void clear() { works_.clear(); }

 private:
  std::vector<Work> works_;
};

}  // namespace sinew::parallel
