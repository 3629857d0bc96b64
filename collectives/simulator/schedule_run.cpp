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
  if (cast.symmetry.by() != nullptr) steps = 1 + cast.symmetry.by()->steps;  // as many segments as for all ranks
  const Executable& one = *cast.code.front();
  const std::uint64_t most = options.most_executed / steps;
  if (most >= one.segments) return one.segments;
  const std::uint64_t waves = std::max<std::uint64_t>(most / one.depth / 2 * 2, kFewestWaves);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(waves * one.depth, one.segments));
}

/// Returns the slice that determines the time of a step. If the step encodes, it is the slice of elements.
const Slice& moved_by(const Step& step) {
  return step.op == Op::Send || step.map == ElementMap::Encode ? step.a : step.dst;
}

/// Returns the kind of work of a step. A reduction that also decodes takes as long as one that does not.
LocalStep local_step(const Step& step) {
  if (step.op == Op::Reduce) return LocalStep::Reduce;
  const bool codes = step.map == ElementMap::Encode || step.map == ElementMap::Decode;
  return codes ? LocalStep::Code : LocalStep::Copy;
}

const std::vector<ChunkTable::Extent>& row_of(const ChunkTable& chunks, Space space) {
  return space == Space::In ? chunks.in : space == Space::Out ? chunks.out : chunks.scratch;
}

}  // namespace

ScheduleRun::ScheduleRun(const Cast& cast, const Network& network, const SimulationOptions& options)
    : cast_(cast),
      network_(network),
      costs_(network),
      options_(options),
      routes_(network, cast.symmetry),
      segments_(segments_to_run(cast, options)),
      depth_(cast.code.front()->depth),
      instances_(cast.code.size() * depth_),
      segment_end_(segments_) {
  std::size_t steps = 0, followers = 0;
  for (const auto& code : cast.code) {
    steps += code->program.steps.size();
    followers += code->followers.size();
  }
  deeds_.reserve(steps + 1);
  followers_.reserve(followers);
  for (const auto& code : cast.code) {
    ranks_.push_back({.code = code.get(), .first_deed = static_cast<std::uint32_t>(deeds_.size())});
    add_deeds(static_cast<std::uint32_t>(ranks_.size()) - 1);
    if (!code->program.steps.empty()) segments_left_ += segments_;
  }
  deeds_.push_back({.first_follower = static_cast<std::uint32_t>(followers_.size())});
  states_.resize(deeds_.size() * depth_);
  find_partners();
}

void ScheduleRun::add_deeds(std::uint32_t kind) {
  const Executable& code = *ranks_[kind].code;
  const std::uint32_t first = ranks_[kind].first_deed;
  for (std::uint32_t s = 0; s < code.program.steps.size(); ++s) {
    const Step& step = code.program.steps[s];
    Deed deed{.waits_for = code.waits_for[s],
              .first_follower = static_cast<std::uint32_t>(followers_.size()),
              .op = step.op,
              .reduces = step.op == Op::Recv && step.a.count > 0};
    const Slice& moved = moved_by(step);
    const bool plain = moved.space != Space::Scratch || code.codec == Codec::None;
    if (moved.count == 1 && plain) deed.elements = row_of(code.chunks, moved.space)[moved.first].count;
    deeds_.push_back(deed);
    for (std::uint32_t f = code.follower_first[s]; f < code.follower_first[s + 1]; ++f)
      followers_.push_back(first + code.followers[f]);
  }
}

void ScheduleRun::find_partners() {
  const Symmetry& symmetry = cast_.symmetry;
  if (const Kinds* by = symmetry.by()) {
    for (std::uint32_t kind = 0; kind < ranks_.size(); ++kind) {
      const std::vector<Step>& steps = ranks_[kind].code->program.steps;
      for (std::uint32_t s = 0; s < steps.size(); ++s) {
        if (steps[s].op != Op::Send && steps[s].op != Op::Recv) continue;
        const Kinds::Partner partner = by->partners[kind][s];
        Deed& deed = deeds_[ranks_[kind].first_deed + s];
        deed.partner = ranks_[partner.kind].first_deed + partner.step;
        deed.partner_kind = partner.kind;
        if (steps[s].op == Op::Send) deed.way = routes_.way(static_cast<int>(kind), steps[s].peer);
      }
    }
    for (Deed& deed : deeds_) {
      if (deed.op == Op::Recv) deed.way = deeds_[deed.partner].way;
    }
    return;
  }
  struct End {
    std::uint32_t kind, deed;
  };
  std::unordered_map<Meeting, End, MeetingHash> single;
  for (std::uint32_t kind = 0; kind < ranks_.size(); ++kind) {
    const int here = symmetry.first_of(static_cast<int>(kind));
    std::uint32_t deed = ranks_[kind].first_deed;
    for (const Step& step : ranks_[kind].code->program.steps) {
      const End end{kind, deed++};
      if (step.op != Op::Send && step.op != Op::Recv) continue;
      const bool sends = step.op == Op::Send;
      const auto from = sends ? kind : static_cast<std::uint32_t>(symmetry.kind_of(step.peer));
      const int to = sends ? symmetry.seen_from(here, step.peer) : symmetry.seen_from(step.peer, here);
      const auto [other, is_first] = single.try_emplace({from, static_cast<std::uint32_t>(to), step.match}, end);
      if (is_first) continue;
      const Routes::Way way = routes_.way(static_cast<int>(from), to);
      const auto join = [&](const End& one, const End& with) {
        deeds_[one.deed].partner = with.deed;
        deeds_[one.deed].partner_kind = with.kind;
        deeds_[one.deed].way = way;
      };
      join(end, other->second);
      join(other->second, end);
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
    for (std::uint32_t i = 0; i < depth_; ++i) start_segment(kind, i);
  }
  for (;;) {
    while (!ready_.empty()) {
      begins_.clear();
      begins_.swap(ready_);
      for (const At& at : begins_) begin(at);
    }
    take_turns();
    routes_.traffic().settle(now_);
    Seconds next = routes_.traffic().next_end();
    if (!events_.empty()) next = std::min(next, events_.at());
    if (next == Traffic::kNever) break;
    advance_to(next);
  }
  if (segments_left_ > 0) throw std::logic_error(fmt::format("the schedule stands still after {} s", now_));
  return forecast();
}

void ScheduleRun::advance_to(Seconds next) {
  now_ = next;
  while (!events_.empty() && events_.at() <= now_ * (1 + kSameTime)) {
    const Event e = events_.next();
    events_.pop();
    e.message < 0 ? over(e.step) : flow(static_cast<std::uint64_t>(e.message));
  }
  ended_.clear();
  routes_.traffic().take_ended(now_, ended_);
  for (const std::uint64_t message : ended_) arrive(message);
}

void ScheduleRun::start_segment(std::uint32_t kind, std::uint32_t i) {
  Rank& rank = ranks_[kind];
  if (rank.next_segment == segments_) return;
  const auto steps = static_cast<std::uint32_t>(rank.code->program.steps.size());
  instance(kind, i) = {rank.next_segment++, steps};
  for (std::uint32_t d = rank.first_deed; d < rank.first_deed + steps; ++d) {
    state(d, i) = deeds_[d].waits_for;
    if (deeds_[d].waits_for == 0) ready_.push_back({kind, i, d, now_});
  }
}

/// What a step moves, in the segment of its instance.
double ScheduleRun::bytes(const At& at) const {
  const Deed& deed = deeds_[at.deed];
  const std::uint32_t segment = instances_[at.kind * depth_ + at.instance].segment;
  if (deed.elements == kMany) return bytes_of_chunks(at, segment);
  const Executable& code = *cast_.code.front();
  return static_cast<double>(segment_of({0, deed.elements}, segment, code.segments, code.unit).count *
                             code.element_bytes);
}

double ScheduleRun::bytes_of_chunks(const At& at, std::uint32_t segment) const {
  const Executable& e = *ranks_[at.kind].code;
  const Slice& moved = moved_by(step(at));
  const auto& row = row_of(e.chunks, moved.space);
  std::uint64_t sum = 0;
  for (std::uint32_t c = moved.first; c < moved.first + moved.count; ++c) {
    const std::uint32_t its_class = moved.space == Space::Scratch ? e.program.scratch_class[c] : 0;
    sum += chunk_bytes(its_class, segment_of(row[c], segment, e.segments, e.unit).count, e.codec, e.element_bytes);
  }
  return static_cast<double>(sum);
}

void ScheduleRun::begin(At at) {
  at.since = now_;
  switch (deeds_[at.deed].op) {
    case Op::Send:
    case Op::Recv: post(at); break;
    case Op::Copy:
    case Op::Reduce: compute(at, local_step(step(at))); break;
  }
}

void ScheduleRun::compute(const At& at, LocalStep step) {
  const Seconds takes = costs_.local_s({.step = step,
                                        .bytes = bytes(at),
                                        .rank = cast_.symmetry.first_of(static_cast<int>(at.kind)),
                                        .dtype = cast_.dtype});
  if (takes == 0) return over(at);
  to_compute_.emplace_back(at, takes);
}

/// What becomes possible at the same time is done in the order of segments and steps, on all ranks alike.
void ScheduleRun::take_turns() {
  std::ranges::sort(to_compute_, std::less<>(), [&](const auto& c) {
    const At& at = c.first;
    return std::tuple(at.kind, instance(at.kind, at.instance).segment, at.deed);
  });
  for (const auto& [at, seconds] : to_compute_) {
    Seconds& busy_until = ranks_[at.kind].busy_until;
    busy_until = std::max(busy_until, now_) + seconds;
    events_.push(busy_until, {at, -1});
  }
  to_compute_.clear();
}

void ScheduleRun::post(const At& at) {
  const Deed& deed = deeds_[at.deed];
  const std::uint32_t segment = instance(at.kind, at.instance).segment;
  std::uint32_t there = 0;
  while (there < depth_ &&
         (state(deed.partner, there) != kPosted || instance(deed.partner_kind, there).segment != segment))
    ++there;
  if (there == depth_) {
    state(at.deed, at.instance) = kPosted;
    return;
  }
  state(deed.partner, there) = 0;
  const At other{deed.partner_kind, there, deed.partner, now_};
  const bool sends = deed.op == Op::Send;
  Message message{.send = sends ? at : other, .recv = sends ? other : at, .path = deed.way.path, .start = now_};
  message.bytes = bytes(message.send);
  std::uint64_t place = messages_.size();
  if (spare_messages_.empty()) {
    messages_.push_back(message);
  } else {
    place = spare_messages_.back();
    spare_messages_.pop_back();
    messages_[place] = message;
  }
  if (deed.way.latency == 0) return flow(place);
  events_.push(now_ + deed.way.latency, {{}, static_cast<std::int64_t>(place)});
}

void ScheduleRun::flow(std::uint64_t message) {
  const Message& m = messages_[message];
  if (m.bytes == 0 || m.path < 0) return arrive(message);
  routes_.carry(m.path, m.bytes);
  routes_.traffic().start(m.path, m.bytes, message, now_);
}

void ScheduleRun::arrive(std::uint64_t message) {
  Message m = messages_[message];
  spare_messages_.push_back(message);
  m.send.since = m.recv.since = m.start;
  over(m.send);
  if (!deeds_[m.recv.deed].reduces) return over(m.recv);
  compute(m.recv, LocalStep::Reduce);
}

void ScheduleRun::over(const At& at) {
  Instance& of = instance(at.kind, at.instance);
  if (options_.time_line) add_span(at, of.segment);
  for (std::uint32_t f = deeds_[at.deed].first_follower; f < deeds_[at.deed + 1].first_follower; ++f) {
    const std::uint32_t next = followers_[f];
    if (--state(next, at.instance) == 0) ready_.push_back({at.kind, at.instance, next, now_});
  }
  if (--of.steps_left > 0) return;
  segment_end_[of.segment] = now_;  // of the last rank, as time goes on
  --segments_left_;
  start_segment(at.kind, at.instance);
}

void ScheduleRun::add_span(const At& at, std::uint32_t segment) {
  time_line_.push_back({.rank = cast_.symmetry.first_of(static_cast<int>(at.kind)),
                        .segment = segment,
                        .step = at.deed - ranks_[at.kind].first_deed,
                        .op = step(at).op,
                        .peer = step(at).peer,
                        .start = at.since,
                        .end = now_});
}

Forecast ScheduleRun::forecast() const {
  const Executable& code = *cast_.code.front();
  Forecast f{.ranks = network_.ranks(),
             .simulated_ranks = cast_.symmetry.kinds(),
             .exact = cast_.symmetry.exact() && cast_.in_order && segments_ == code.segments,
             .segments = code.segments,
             .depth = code.depth,
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
  const double repeats = static_cast<double>(code.segments) / segments_;
  f.loads = routes_.loads(repeats, f.seconds);
  if (options_.link_bytes) f.link_bytes = routes_.link_bytes(repeats);
  f.account = cast_.symmetry.describe();
  if (!cast_.symmetry.exact()) f.account += ", though in one step some of these cross the spine and some do not";
  if (!cast_.in_order) f.account += ", though not in the same order";
  if (segments_ < code.segments)
    f.account += fmt::format("; {} of {} segments, the others at the pace of the last half", segments_, code.segments);
  return f;
}

}  // namespace sinew
