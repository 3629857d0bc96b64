#include <algorithm>
#include <functional>
#include <stdexcept>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/simulator/schedule_run.hpp>

namespace sinew {
namespace {

/// Times that rounding alone tells apart are one.
constexpr double kSameTime = 1e-12;
/// Waves of segments that are simulated at least: before the last half all ranks are at work.
constexpr std::uint32_t kFewestWaves = 4;

/// A message as one from the first rank of a kind.
struct Meeting {
  std::uint32_t kind, to, match;
  bool operator==(const Meeting&) const = default;
};

struct MeetingHash {
  std::size_t operator()(const Meeting& m) const noexcept {
    return mix(mix(static_cast<std::uint64_t>(m.kind) << 32 | m.to, 0), m.match);
  }
};

/// All of them, or so many that each half is a multiple of the depth: segments come in waves of so many.
std::uint32_t segments_to_run(const Cast& cast, const SimulationOptions& options) {
  std::uint64_t steps = 1;
  for (const auto& code : cast.code) steps += code->program.steps.size();
  const Executable& one = *cast.code.front();
  const std::uint64_t most = options.most_executed / steps;
  if (most >= one.segments) return one.segments;
  const std::uint64_t waves = std::max<std::uint64_t>(most / one.depth / 2 * 2, kFewestWaves);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(waves * one.depth, one.segments));
}

}  // namespace

ScheduleRun::ScheduleRun(const Cast& cast, const Network& network, const SimulationOptions& options)
    : cast_(cast),
      network_(network),
      options_(options),
      routes_(network, cast.symmetry),
      segments_(segments_to_run(cast, options)),
      segment_end_(segments_) {
  for (const auto& code : cast.code) {
    ranks_.push_back({.code = code.get(), .instances = std::vector<Instance>(code->depth)});
    if (!code->program.steps.empty()) segments_left_ += segments_;
  }
  find_partners();
}

void ScheduleRun::find_partners() {
  const Symmetry& symmetry = cast_.symmetry;
  std::unordered_map<Meeting, At, MeetingHash> single;
  for (std::uint32_t kind = 0; kind < ranks_.size(); ++kind) {
    const Executable& code = *rank(kind).code;
    const int here = symmetry.first_of(static_cast<int>(kind));
    rank(kind).partners.resize(code.messages);
    for (std::uint32_t s = 0; s < code.program.steps.size(); ++s) {
      const Step& step = code.program.steps[s];
      if (step.op != Op::Send && step.op != Op::Recv) continue;
      const bool sends = step.op == Op::Send;
      const auto from = sends ? kind : static_cast<std::uint32_t>(symmetry.kind_of(step.peer));
      const int to = sends ? symmetry.seen_from(here, step.peer) : symmetry.seen_from(step.peer, here);
      const At at{.kind = kind, .step = s};
      const auto [other, is_first] = single.try_emplace({from, static_cast<std::uint32_t>(to), step.match}, at);
      if (is_first) continue;
      const Routes::Way* way = &routes_.way(static_cast<int>(from), to);
      partner_of(at) = {other->second.kind, other->second.step, way};
      partner_of(other->second) = {kind, s, way};
      single.erase(other);
    }
  }
  if (!single.empty()) {
    throw std::logic_error(
        fmt::format("{} messages have one end only: ranks that seemed alike are not", single.size()));
  }
}

Forecast ScheduleRun::run() {
  for (std::uint32_t kind = 0; kind < ranks_.size(); ++kind) {
    for (std::uint32_t i = 0; i < rank(kind).code->depth; ++i) start_segment(kind, i);
  }
  for (;;) {
    while (!ready_.empty()) {
      const std::vector<At> begins = std::exchange(ready_, {});
      for (const At& at : begins) begin(at);
    }
    take_turns();
    routes_.traffic().settle(now_);
    const Seconds next = std::min(events_.empty() ? Traffic::kNever : events_.top().at, routes_.traffic().next_end());
    if (next == Traffic::kNever) break;
    advance_to(next);
  }
  if (segments_left_ > 0) throw std::logic_error(fmt::format("the schedule stands still after {} s", now_));
  return forecast();
}

void ScheduleRun::advance_to(Seconds next) {
  now_ = next;
  while (!events_.empty() && events_.top().at <= now_ * (1 + kSameTime)) {
    const Event e = events_.top();
    events_.pop();
    e.message < 0 ? over(e.step) : flow(static_cast<std::uint64_t>(e.message));
  }
  ended_.clear();
  routes_.traffic().take_ended(now_, ended_);
  for (const std::uint64_t message : ended_) arrive(message);
}

void ScheduleRun::start_segment(std::uint32_t kind, std::uint32_t instance) {
  Rank& r = rank(kind);
  if (r.next_segment == segments_) return;
  Instance& started = r.instances[instance];
  started.segment = r.next_segment++;
  started.waits_for = r.code->waits_for;
  started.posted.assign(started.waits_for.size(), 0);
  started.steps_left = started.waits_for.size();
  for (std::uint32_t s = 0; s < started.waits_for.size(); ++s) {
    if (started.waits_for[s] == 0) ready_.push_back({kind, instance, s, now_});
  }
}

double ScheduleRun::bytes(const At& at, const Slice& slice) const {
  const Executable& e = *ranks_[at.kind].code;
  const auto& row = slice.space == Space::In    ? e.chunks.in
                    : slice.space == Space::Out ? e.chunks.out
                                                : e.chunks.scratch;
  const std::uint32_t segment = ranks_[at.kind].instances[at.instance].segment;
  std::uint64_t sum = 0;
  for (std::uint32_t c = slice.first; c < slice.first + slice.count; ++c) {
    const std::uint32_t its_class = slice.space == Space::Scratch ? e.program.scratch_class[c] : 0;
    sum += chunk_bytes(its_class, row[c].segment(segment, e.segments).count, e.codec, e.element_bytes);
  }
  return static_cast<double>(sum);
}

void ScheduleRun::begin(At at) {
  at.since = now_;
  const Step& step = rank(at.kind).code->program.steps[at.step];
  switch (step.op) {
    case Op::Send:
    case Op::Recv: post(at, step); break;
    case Op::Copy: compute(at, bytes(at, step.dst), network_.copy_bytes_per_s); break;
    case Op::Reduce: compute(at, bytes(at, step.dst), network_.reduce_bytes_per_s); break;
  }
}

void ScheduleRun::compute(const At& at, double bytes, double bytes_per_s) {
  if (bytes == 0 || bytes_per_s == 0) return over(at);
  to_compute_.emplace_back(at, bytes / bytes_per_s);
}

/// What becomes possible at the same time is done in the order of segments and steps, on all ranks alike.
void ScheduleRun::take_turns() {
  std::ranges::sort(to_compute_, std::less<>(), [&](const auto& c) {
    const At& at = c.first;
    return std::tuple(at.kind, rank(at.kind).instances[at.instance].segment, at.step);
  });
  for (const auto& [at, seconds] : to_compute_) {
    Rank& r = rank(at.kind);
    r.busy_until = std::max(r.busy_until, now_) + seconds;
    events_.push({r.busy_until, order_++, at, -1});
  }
  to_compute_.clear();
}

void ScheduleRun::post(const At& at, const Step& step) {
  Instance& here = rank(at.kind).instances[at.instance];
  const Partner& partner = partner_of(at);
  std::vector<Instance>& there = rank(partner.kind).instances;
  const auto waits = std::ranges::find_if(there, [&](const Instance& i) {
    return i.steps_left > 0 && i.segment == here.segment && i.posted[partner.step] != 0;
  });
  if (waits == there.end()) {
    here.posted[at.step] = 1;
    return;
  }
  waits->posted[partner.step] = 0;
  const At other{partner.kind, static_cast<std::uint32_t>(waits - there.begin()), partner.step, now_};
  const bool sends = step.op == Op::Send;
  Message message{.send = sends ? at : other, .recv = sends ? other : at, .way = partner.way, .start = now_};
  message.bytes = bytes(message.send, rank(message.send.kind).code->program.steps[message.send.step].a);
  std::uint64_t place = messages_.size();
  if (spare_messages_.empty()) {
    messages_.push_back(message);
  } else {
    place = spare_messages_.back();
    spare_messages_.pop_back();
    messages_[place] = message;
  }
  if (message.way->latency == 0) return flow(place);
  events_.push({now_ + message.way->latency, order_++, {}, static_cast<std::int64_t>(place)});
}

void ScheduleRun::flow(std::uint64_t message) {
  const Message& m = messages_[message];
  if (m.bytes == 0 || m.way->path < 0) return arrive(message);
  routes_.carry(*m.way, m.bytes);
  routes_.traffic().start(m.way->path, m.bytes, message, now_);
}

void ScheduleRun::arrive(std::uint64_t message) {
  Message m = messages_[message];
  spare_messages_.push_back(message);
  m.send.since = m.recv.since = m.start;
  over(m.send);
  const Step& into = rank(m.recv.kind).code->program.steps[m.recv.step];
  if (into.a.count == 0) return over(m.recv);
  compute(m.recv, bytes(m.recv, into.dst), network_.reduce_bytes_per_s);
}

void ScheduleRun::over(const At& at) {
  Rank& r = rank(at.kind);
  Instance& of = r.instances[at.instance];
  const Executable& code = *r.code;
  if (options_.time_line) {
    const Step& step = code.program.steps[at.step];
    time_line_.push_back({.rank = cast_.symmetry.first_of(static_cast<int>(at.kind)),
                          .segment = of.segment,
                          .step = at.step,
                          .op = step.op,
                          .peer = step.peer,
                          .start = at.since,
                          .end = now_});
  }
  for (std::uint32_t f = code.follower_first[at.step]; f < code.follower_first[at.step + 1]; ++f) {
    const std::uint32_t next = code.followers[f];
    if (--of.waits_for[next] == 0) ready_.push_back({at.kind, at.instance, next, now_});
  }
  if (--of.steps_left > 0) return;
  segment_end_[of.segment] = now_;  // of the last rank, as time goes on
  --segments_left_;
  start_segment(at.kind, at.instance);
}

Forecast ScheduleRun::forecast() const {
  const Executable& code = *cast_.code.front();
  Forecast f{.ranks = network_.ranks(),
             .simulated_ranks = cast_.symmetry.kinds(),
             .exact = cast_.symmetry.exact() && cast_.in_order && segments_ == code.segments,
             .segments = code.segments,
             .simulated_segments = segments_,
             .time_line = time_line_};
  f.seconds = now_;
  if (segments_ < code.segments) {
    const std::uint32_t half = segments_ / 2;
    const Seconds pace =
        (now_ - *std::max_element(segment_end_.begin(), segment_end_.begin() + half)) / (segments_ - half);
    f.seconds += pace * (code.segments - segments_);
  }
  for (const auto& each : cast_.code) f.scratch_bytes = std::max(f.scratch_bytes, each->scratch_bytes * each->depth);
  f.loads = routes_.loads(static_cast<double>(code.segments) / segments_, f.seconds);
  f.account = cast_.symmetry.describe();
  if (!cast_.symmetry.exact()) f.account += ", though in one step some of these cross the spine and some do not";
  if (!cast_.in_order) f.account += ", though not in the same order";
  if (segments_ < code.segments)
    f.account += fmt::format("; {} of {} segments, the others at the pace of the last half", segments_, code.segments);
  return f;
}

}  // namespace sinew
