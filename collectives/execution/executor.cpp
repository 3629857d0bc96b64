#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/execution/executor.hpp>
#include <sinew/collectives/execution/sized_memory.hpp>

namespace sinew {

/// One posted Send or Recv of one instance.
struct Executor::Message : Completion {
  Instance* instance = nullptr;
  std::uint32_t step = 0;
  bool posted = false;
  bool rest = false;  // of a sized message: its head has gone or come
};

/// One segment's pass through the program.
struct Executor::Instance {
  Run* run = nullptr;
  std::uint32_t segment = 0;
  std::uint32_t steps_left = 0;
  std::uint32_t posted = 0;
  bool running = false;
  std::vector<std::uint32_t> waits_for;
  std::vector<std::uint32_t> ready;
  std::unique_ptr<Message[]> messages;
  ScratchPool::Block scratch;  // while it runs
  SizedMemory sized;           // of a program whose messages are sized

  Buffer memory(const Slice& slice) const noexcept;
};

struct Executor::Run {
  Executor* executor = nullptr;
  RunArguments args;
  std::array<const std::vector<ChunkTable::Extent>*, 3> rows{};  // by Space
  Completion* done = nullptr;                                    // null: idle
  Status status;
  std::uint64_t scratch_bytes = 0;  // of an instance
  std::uint32_t next_segment = 0;
  std::uint32_t segments_left = 0;
  std::uint32_t instances_running = 0;
  bool failed = false;
  std::vector<Instance> instances;
};

namespace {

/// Of a message that has not as many bytes as its receive.
Status wrong_length(const Executable& e, const Step& step, std::size_t sent, std::size_t expected) {
  return {Code::Mismatch,
          fmt::format("{} sent {} {} elements, which expected {}", e.rank_text(step.peer), e.rank_text(e.program.rank),
                      sent / e.element_bytes, expected / e.element_bytes),
          step.peer};
}

/// What is wrong with a message, and whose it is.
Status named(const Status& status, const Executable& e, const Step& step) {
  // The transport has set a World rank; the caller expects a rank of the communicator.
  if (status.rank() >= 0) return {status.code(), std::string(status.message()), step.peer};
  const bool is_of_message = status.code() == Code::Mismatch || status.code() == Code::InvalidArgument;
  if (!is_of_message) return status;
  return {status.code(),
          fmt::format("{} {}: {}", step.op == Op::Send ? "to" : "from", e.rank_text(step.peer), status.message()),
          step.peer};
}

}  // namespace

/// The bytes of a slice in this segment. Slices of several chunks are contiguous only unsegmented.
Buffer Executor::Instance::memory(const Slice& slice) const noexcept {
  const Executable& e = *run->args.executable;
  const auto& row = *run->rows[static_cast<std::size_t>(slice.space)];
  const ChunkTable::Extent head = row[slice.first];
  const ChunkTable::Extent part = segment_of(head, segment, e.segments, e.unit);
  const std::uint32_t chunk_class = slice.space == Space::Scratch ? e.program.scratch_class[slice.first] : 0;
  std::size_t bytes = chunk_bytes(chunk_class, part.count, e.codec, e.element_bytes);
  for (std::uint32_t c = 1; c < slice.count; ++c) {
    const std::uint64_t more = segment_of(row[slice.first + c], segment, e.segments, e.unit).count;
    bytes += chunk_bytes(chunk_class, more, e.codec, e.element_bytes);
  }
  switch (slice.space) {
    case Space::In:
      return {const_cast<std::byte*>(run->args.in.data) + part.first * e.element_bytes, bytes, run->args.in.place};
    case Space::Out: return {run->args.out.data + part.first * e.element_bytes, bytes, run->args.out.place};
    case Space::Scratch:
      return {e.sized ? sized.data(slice.first) : scratch.memory.get() + head.first * e.element_bytes, bytes, {}};
  }
  return {};
}

Executor::Executor() = default;
Executor::~Executor() = default;

Executor::Run& Executor::take_run(const Executable& e) {
  auto& runs = runs_[&e];
  for (auto& run : runs) {
    if (run->done == nullptr) return *run;
  }
  auto run = std::make_unique<Run>();
  run->executor = this;
  run->instances.resize(e.depth);
  for (Instance& i : run->instances) {
    i.run = run.get();
    i.messages = std::make_unique<Message[]>(e.messages);
    i.ready.reserve(e.program.steps.size());
    for (std::uint32_t s = 0; s < e.program.steps.size(); ++s) {
      if (e.endpoint_of_step[s] == nullptr) continue;
      Message& m = i.messages[e.message_of_step[s]];
      m.fire = &Executor::message_fired;
      m.instance = &i;
      m.step = s;
    }
  }
  runs.push_back(std::move(run));
  return *runs.back();
}

void Executor::take_local_chunks(Run& run) {
  ChunkTable& chunks = run.args.parts->chunks;
  lay_out_scratch(run.args.executable->scratch_models, chunks);
  run.rows = {&chunks.in, &chunks.out, &chunks.scratch};
  if (run.args.executable->sized) run.scratch_bytes = run.args.executable->sized->head_bytes();
  if (chunks.scratch.empty() || run.args.executable->sized) return;
  const ChunkTable::Extent last = chunks.scratch.back();
  run.scratch_bytes = (last.first + last.count) * run.args.executable->element_bytes;
}

void Executor::start(const RunArguments& arguments, Completion& done) {
  Run& run = take_run(*arguments.executable);
  run.args = arguments;
  const ChunkTable& chunks = arguments.executable->chunks;
  run.rows = {&chunks.in, &chunks.out, &chunks.scratch};
  run.scratch_bytes = arguments.executable->scratch_bytes;
  if (arguments.executable->local_counts) {
    take_local_chunks(run);
  } else if (run.args.parts && run.args.parts->separate) {
    const ChunkTable& own = run.args.parts->chunks;
    if (!own.in.empty()) run.rows[0] = &own.in;
    if (!own.out.empty()) run.rows[1] = &own.out;
  }
  run.done = &done;
  run.status = {};
  run.failed = false;
  run.next_segment = 0;
  run.segments_left = arguments.executable->segments;
  try {
    start_instances(run);
  } catch (const std::exception& e) {  // messages may be in flight, so the call ends when they have ended
    give_up(run, status_of(e));
  }
}

/// Starts instances until as many as allowed are in flight. An instance without messages ends while it is started.
void Executor::start_instances(Run& run) {
  const Executable& e = *run.args.executable;
  while (!run.failed && run.next_segment < e.segments && run.instances_running < e.depth) start_instance(run);
}

void Executor::start_instance(Run& run) {
  const Executable& e = *run.args.executable;
  const auto idle = std::ranges::find(run.instances, false, &Instance::running);
  Instance& instance = *idle;
  instance.waits_for = e.waits_for;
  instance.ready.clear();
  instance.scratch = scratch_.take(run.scratch_bytes);
  if (e.sized) instance.sized.begin(e, run.args.parts->chunks, instance.scratch.memory.get());
  instance.running = true;  // the statements above may throw
  instance.segment = run.next_segment++;
  instance.steps_left = static_cast<std::uint32_t>(e.program.steps.size());
  instance.posted = 0;
  ++run.instances_running;
  for (std::uint32_t s = instance.steps_left; s-- > 0;) {
    if (instance.waits_for[s] == 0) instance.ready.push_back(s);
  }
  if (instance.steps_left == 0) {
    instance_over(instance);
  } else {
    execute_ready(instance);
  }
}

/// Works through what is ready; local steps may make more ready. Ends the instance when nothing is left.
void Executor::execute_ready(Instance& instance) {
  while (!instance.ready.empty() && !instance.run->failed) {
    const std::uint32_t step = instance.ready.back();
    instance.ready.pop_back();
    begin_step(instance, step);
  }
  const bool over = instance.run->failed ? instance.posted == 0 : instance.steps_left == 0;
  if (over) instance_over(instance);
}

/// A step that needs nobody else. Elements are f32 where there is a codec.
void Executor::compute(const Instance& instance, const Step& s) {
  const Executable& e = *instance.run->args.executable;
  const Buffer to = instance.memory(s.dst);
  const Buffer from = instance.memory(s.a);
  if (s.op == Op::Reduce) {
    const std::byte* other = instance.memory(s.b).data;
    if (s.map == ElementMap::Decode) {
      e.coding.decode_add(to.data, from.data, other, to.bytes / sizeof(float));
    } else {
      e.reducer(to.data, from.data, other, to.bytes);
      if (s.map == ElementMap::Scale) e.scaler(to.data, to.data, to.bytes);
    }
    return;
  }
  switch (s.map) {
    case ElementMap::None:
      if (to.data != from.data && to.bytes > 0) std::memcpy(to.data, from.data, to.bytes);
      break;
    case ElementMap::Scale: e.scaler(to.data, from.data, to.bytes); break;
    case ElementMap::Encode: e.coding.encode(to.data, from.data, from.bytes / sizeof(float)); break;
    case ElementMap::Decode: e.coding.decode(to.data, from.data, to.bytes / sizeof(float)); break;
  }
}

void Executor::begin_step(Instance& instance, std::uint32_t step) {
  const RunArguments& args = instance.run->args;
  const Executable& e = *args.executable;
  const Step& s = e.program.steps[step];
  if (s.op == Op::Copy || s.op == Op::Reduce) {
    if (e.sized && s.dst.space == Space::Scratch) {
      if (const Status laid = instance.sized.lay_out(s.dst.first, scratch_); !laid.ok())
        return fail(*instance.run, laid);
    }
    compute(instance, s);
    step_done(instance, step);
    return;
  }
  Message& message = instance.messages[e.message_of_step[step]];
  message.rest = false;
  if (e.sized) {
    post(message, s.op == Op::Send ? instance.sized.head(s.a.first) : instance.sized.head_room(s.dst.first));
  } else {
    post(message, instance.memory(s.op == Op::Send ? s.a : s.dst));
  }
}

/// Posts a message, or the rest of a sized one, whose data is in `memory`.
void Executor::post(Message& message, Buffer memory) {
  Instance& instance = *message.instance;
  const RunArguments& args = instance.run->args;
  const Executable& e = *args.executable;
  const Step& s = e.program.steps[message.step];
  Endpoint& endpoint = *e.endpoint_of_step[message.step];
  message.status = {};
  // The two parts of a sized message have the numbers of two segments. Such a program has a single segment.
  const std::uint32_t segment = instance.segment + (message.rest ? 1 : 0);
  const Tag tag = Tag::collective(args.generation, args.communicator, args.sequence, s.match, segment);
  if (s.op == Op::Send) {
    endpoint.send(memory, tag, args.history, message);
  } else {
    message.note = args.history;
    Sink sink{memory, nullptr, {}};
    if (s.a.count > 0) {
      sink.reduce = &e.reducer;
      sink.with = instance.memory(s.a);
    }
    endpoint.recv(sink, tag, message);
  }
  message.posted = true;  // a message that an endpoint has refused by an exception never completes
  ++instance.posted;
}

/// Marks a step done and its followers ready; does not run them.
void Executor::step_done(Instance& instance, std::uint32_t step) {
  const Executable& e = *instance.run->args.executable;
  --instance.steps_left;
  for (std::uint32_t f = e.follower_first[step]; f < e.follower_first[step + 1]; ++f) {
    if (--instance.waits_for[e.followers[f]] == 0) instance.ready.push_back(e.followers[f]);
  }
}

void Executor::message_fired(Completion& completion) noexcept {
  auto& message = static_cast<Message&>(completion);
  Instance& instance = *message.instance;
  Run& run = *instance.run;
  const Executable& e = *run.args.executable;
  message.posted = false;
  --instance.posted;
  const Step& s = e.program.steps[message.step];
  const bool too_long = s.op == Op::Recv && message.status.code() == Code::Truncated;
  try {
    if (!message.status.ok() && !too_long) {
      run.executor->fail(run, named(message.status, e, s));
    } else if (!run.failed) {
      if (e.sized) {
        run.executor->sized_part_over(message);
      } else if (s.op == Op::Recv) {
        const Buffer to = instance.memory(s.dst);
        if (message.bytes != to.bytes) {
          run.executor->fail(run, wrong_length(e, s, message.bytes, to.bytes));
        } else if (s.map == ElementMap::Scale) {
          e.scaler(to.data, to.data, to.bytes);
        }
      }
      if (!run.failed && !message.posted) run.executor->step_done(instance, message.step);
    }
    run.executor->execute_ready(instance);
    run.executor->start_instances(run);
  } catch (const std::exception& thrown) {
    run.executor->give_up(run, status_of(thrown));
  }
}

/// The head of a sized message, or its rest, has gone or come. Posts the rest if there is one.
void Executor::sized_part_over(Message& message) {
  Instance& instance = *message.instance;
  const Executable& e = *instance.run->args.executable;
  const Step& s = e.program.steps[message.step];
  const std::uint32_t chunk = (s.op == Op::Send ? s.a : s.dst).first;
  if (s.op == Op::Recv && !message.rest) {
    if (const Status told = instance.sized.take_head(s, message.bytes, scratch_); !told.ok())
      return fail(*instance.run, told);
  }
  const Buffer rest = instance.sized.rest(chunk);
  if (std::exchange(message.rest, true)) {
    if (s.op == Op::Recv && message.bytes != rest.bytes) {
      fail(*instance.run, wrong_length(e, s, message.bytes, rest.bytes));
    }
  } else if (rest.bytes > 0) {
    post(message, rest);
  }
}

void Executor::instance_over(Instance& instance) {
  Run& run = *instance.run;
  if (!instance.running) return;
  instance.running = false;
  scratch_.give(std::exchange(instance.scratch, {}));
  instance.sized.end(scratch_);
  --run.instances_running;
  --run.segments_left;
  if (run.instances_running == 0 && (run.failed || run.segments_left == 0)) finished_.push_back(&run);
}

void Executor::fail(Run& run, const Status& reason) noexcept {
  if (run.failed) return;
  run.failed = true;
  run.status = reason;
  const Executable& e = *run.args.executable;
  for (Instance& i : run.instances) {
    if (!i.running) continue;
    for (std::uint32_t m = 0; m < e.messages; ++m) {
      Message& message = i.messages[m];
      if (message.posted) e.endpoint_of_step[message.step]->cancel(message);
    }
  }
}

void Executor::give_up(Run& run, const Status& reason) noexcept {
  fail(run, reason);
  for (Instance& i : run.instances) {
    if (i.running && i.posted == 0) instance_over(i);
  }
  const bool is_finished = std::ranges::find(finished_, &run) != finished_.end();
  if (run.instances_running == 0 && !is_finished) finished_.push_back(&run);
}

void Executor::abort(std::uint16_t communicator, const Status& reason) noexcept {
  for (auto& [executable, runs] : runs_) {
    for (auto& run : runs) {
      if (run->done == nullptr || run->args.communicator != communicator || run->failed) continue;
      if (std::ranges::find(finished_, run.get()) != finished_.end()) continue;
      give_up(*run, reason);
    }
  }
}

OpenMessages Executor::open_messages(std::uint16_t communicator, std::uint16_t sequence) const {
  OpenMessages open;
  for (const auto& [executable, runs] : runs_) {
    for (const auto& run : runs) {
      if (run->done == nullptr || run->args.communicator != communicator || run->args.sequence != sequence) continue;
      for (const Instance& i : run->instances) {
        for (std::uint32_t m = 0; i.running && m < executable->messages; ++m) {
          if (!i.messages[m].posted) continue;
          const Step& s = executable->program.steps[i.messages[m].step];
          (s.op == Op::Send ? open.to : open.from).insert(s.peer);
        }
      }
    }
  }
  return open;
}

void Executor::forget(const Executable& executable) noexcept {
  const auto at = runs_.find(&executable);
  if (at == runs_.end()) return;
  std::erase_if(at->second, [](const std::unique_ptr<Run>& run) { return run->done == nullptr; });
  if (at->second.empty()) runs_.erase(at);
}

std::size_t Executor::memory_bytes(const Executable& executable) const noexcept {
  const auto at = runs_.find(&executable);
  if (at == runs_.end()) return 0;
  std::size_t bytes = 0;
  for (const auto& run : at->second) {
    for (const Instance& i : run->instances) bytes += i.scratch.bytes + executable.messages * sizeof(Message);
  }
  return bytes;
}

int Executor::progress() noexcept {
  int events = 0;
  while (!finished_.empty()) {
    Run* run = finished_.front();
    finished_.erase(finished_.begin());
    Completion* done = run->done;
    run->done = nullptr;
    run->args.parts = {};
    done->bytes = run->args.out.bytes;
    done->finish(run->status);
    ++events;
  }
  return events;
}

}  // namespace sinew
