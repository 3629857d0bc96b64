#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include <sinew/collectives/execution/call_parts.hpp>
#include <sinew/collectives/execution/executable.hpp>
#include <sinew/collectives/execution/scratch_pool.hpp>
#include <sinew/collectives/messages/open_messages.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/transport/progress_source.hpp>

namespace sinew {

/// Everything one call adds to an Executable.
struct RunArguments {
  const Executable* executable = nullptr;
  ConstBuffer in;
  Buffer out;
  std::uint64_t history = 0;  ///< Call::history: the note of every message
  std::uint8_t generation = 0;
  std::uint16_t communicator = 0;
  std::uint16_t sequence = 0;
  CallPartsRef parts{};  ///< of the v-forms
};

/// Runs programs over endpoints. Posts what is ready, and from each completion what follows it; local steps run where
/// they become ready. One instance of the program per segment, at most `depth` at a time, started in order; each takes
/// its scratch as it starts and gives it back as it ends.
/// Thread: its World's progress thread.
class SINEW_API Executor : public ProgressSource {
 public:
  Executor();
  ~Executor() override;

  /// `done` fires from this source's progress(). The first failed step ends the run: what is posted is cancelled and
  /// awaited, so that no buffer is touched after `done`.
  void start(const RunArguments& arguments, Completion& done);
  /// Ends every run of a communicator with `reason` as soon as its posted steps are back.
  void abort(std::uint16_t communicator, const Status& reason) noexcept;

  /// What a call waits for at this moment. Cost: looks at every message of its runs.
  OpenMessages open_messages(std::uint16_t communicator, std::uint16_t sequence) const;

  /// Drops the idle runs made for an executable that is about to end.
  void forget(const Executable& executable) noexcept;

  int progress() noexcept override;
  bool active() const noexcept override { return !finished_.empty(); }
  int wake_descriptor() const noexcept override { return -1; }
  bool arm() noexcept override { return finished_.empty(); }
  void disarm() noexcept override {}

  /// What the runs made for an executable keep.
  std::size_t memory_bytes(const Executable& executable) const noexcept;
  /// What runs have left for the next ones, of whatever communicator.
  std::size_t kept_bytes() const noexcept { return scratch_.bytes(); }

 private:
  struct Run;
  struct Instance;
  struct Message;

  Run& take_run(const Executable& e);
  /// The call's own chunks, and room for its scratch.
  void take_local_chunks(Run& run);
  void start_instances(Run& run);
  void start_instance(Run& run);
  void step_done(Instance& instance, std::uint32_t step);
  void execute_ready(Instance& instance);
  void begin_step(Instance& instance, std::uint32_t step);
  void post(Message& message, Buffer memory);
  void sized_part_over(Message& message);
  static void compute(const Instance& instance, const Step& step);
  void instance_over(Instance& instance);
  void fail(Run& run, const Status& reason) noexcept;
  /// Calls fail(), and ends the instances of the run that have no message in flight.
  void give_up(Run& run, const Status& reason) noexcept;
  static void message_fired(Completion& completion) noexcept;

  ScratchPool scratch_;
  std::unordered_map<const Executable*, std::vector<std::unique_ptr<Run>>> runs_;  // an idle one serves again
  std::vector<Run*> finished_;
};

}  // namespace sinew
