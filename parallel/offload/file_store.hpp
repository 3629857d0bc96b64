#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/offload/offload_store.hpp>

namespace sinew::parallel {

/// A store in a scratch file. The file has no name from the beginning on, so that nothing of it stays behind however
/// the process ends. Room of released slots is used again. The file does not become shorter.
/// Shape:  memory of the host only.
/// Errors: the constructor throws System with the folder and the system's text if no file can be made there. write()
///         and read() throw InvalidArgument for device memory, and read() for an array of another length. wait() throws
///         System with the folder, the bytes and the system's text if the disk is full or cannot be read.
/// Cost:   one thread, which reads before it writes other arrays. The system keeps parts of the file in its page
///         cache while it has memory to spare.
/// Source: Rajbhandari et al., ZeRO-Infinity, arXiv 2104.07857.
class SINEW_API FileStore final : public OffloadStore {
 public:
  /// folder: where the file is; it should be on a disk, not in memory as /tmp is on some hosts.
  explicit FileStore(std::string folder);
  ~FileStore() override;

  Slot write(ConstBuffer from) override;
  void read(Slot slot, Buffer to) override;
  bool done(Slot slot) override;
  void wait(Slot slot) override;
  void release(Slot slot) noexcept override;
  std::size_t stored_bytes() const noexcept override;
  std::uint64_t copied_bytes() const noexcept override;
  /// The length of the file.
  std::uint64_t file_bytes() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sinew::parallel
