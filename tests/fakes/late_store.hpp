#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include <sinew/core/error.hpp>
#include <sinew/parallel/offload/offload_store.hpp>

namespace sinew::fake {

/// A store whose copies run as late as its users allow. Memory that is used again too early therefore shows wrong
/// bytes. It counts what is on its way.
class LateStore final : public parallel::OffloadStore {
 public:
  /// The write of this number fails, counted from 1. 0: none does.
  explicit LateStore(std::uint64_t failing_write = 0) : failing_write_(failing_write) {}

  Slot write(ConstBuffer from) override {
    Array& array = arrays_[++last_];
    array.bytes.resize(from.bytes);
    array.from = from.data;
    array.fails = last_ == failing_write_;
    stored_ += from.bytes;
    writing_ += from.bytes;
    most_writing_ = std::max(most_writing_, writing_);
    return last_;
  }
  void read(Slot slot, Buffer to) override {
    Array& array = arrays_.at(slot);
    run_write(array);
    array.to = to.data;
    reading_ += to.bytes;
    most_reading_ = std::max(most_reading_, reading_);
    reads_.push_back(slot);
  }
  bool done(Slot slot) override {
    Array& array = arrays_.at(slot);
    if ((array.from != nullptr || array.to != nullptr) && random_() % 3 != 0) return false;
    run(array);
    return true;
  }
  void wait(Slot slot) override {
    Array& array = arrays_.at(slot);
    run(array);
    if (array.fails) throw Error(Code::System, "late store: no room");
  }
  void release(Slot slot) noexcept override {
    const auto found = arrays_.find(slot);
    Array& array = found->second;
    if (array.from != nullptr) writing_ -= array.bytes.size();
    if (array.to != nullptr) reading_ -= array.bytes.size();
    stored_ -= array.bytes.size();
    arrays_.erase(found);
  }
  std::size_t stored_bytes() const noexcept override { return stored_; }
  std::uint64_t copied_bytes() const noexcept override { return copied_; }

  /// Bytes that were on their way at once, at most.
  std::size_t most_writing() const noexcept { return most_writing_; }
  std::size_t most_reading() const noexcept { return most_reading_; }
  /// The slots that were read, in the order of the calls.
  const std::vector<Slot>& reads() const noexcept { return reads_; }

 private:
  struct Array {
    Bytes bytes{};
    const std::byte* from = nullptr;  // of a write that has not run
    std::byte* to = nullptr;          // of a read that has not run
    bool fails = false;
  };

  void run_write(Array& array) {
    if (array.from == nullptr) return;
    std::memcpy(array.bytes.data(), array.from, array.bytes.size());
    array.from = nullptr;
    writing_ -= array.bytes.size();
    copied_ += array.bytes.size();
  }
  void run(Array& array) {
    run_write(array);
    if (array.to == nullptr) return;
    std::memcpy(array.to, array.bytes.data(), array.bytes.size());
    array.to = nullptr;
    reading_ -= array.bytes.size();
    copied_ += array.bytes.size();
  }

  std::uint64_t failing_write_;
  std::map<Slot, Array> arrays_;
  std::vector<Slot> reads_;
  std::mt19937 random_{3};
  Slot last_ = 0;
  std::size_t stored_ = 0, writing_ = 0, reading_ = 0, most_writing_ = 0, most_reading_ = 0;
  std::uint64_t copied_ = 0;
};

}  // namespace sinew::fake
