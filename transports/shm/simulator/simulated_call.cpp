#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

#include <sinew/transports/shm/model/chunking.hpp>
#include <sinew/transports/shm/simulator/call_program.hpp>
#include <sinew/transports/shm/simulator/simulated_call.hpp>

namespace sinew::shm {
namespace {

/// The chunks of long calls that are run. The second half tells what further chunks take.
constexpr std::uint64_t kSimulatedChunks = 6;
constexpr std::uint64_t kSimulatedOfTree = 64;  // more, since the first ones fill the tree

std::uint64_t chunks_of(const ModelCall& call, Protocol protocol, std::uint64_t ranks) {
  if (protocol == Protocol::TreeChunks) return tree_chunks(call.bytes);
  if (protocol != Protocol::Chunks) return 0;
  return Chunking(call.collective, call.bytes, ranks, call.chunk_bytes).chunks;
}

class HostRun {
 public:
  HostRun(const CallProgram& program, const Levels& levels, const HostCosts& costs)
      : program_(program),
        levels_(levels),
        costs_(costs),
        lines_(program.owners.size()),
        next_(program.strands.size()),
        core_free_(static_cast<std::size_t>(levels.ranks())) {
    const auto nodes = static_cast<std::size_t>(levels.domains(HostPart::NumaNode));
    const auto sockets = static_cast<std::size_t>(levels.domains(HostPart::Package));
    node_free_.resize(nodes);
    node_link_free_.resize(nodes * nodes);
    socket_link_free_.resize(sockets * sockets);
    for (const Strand& strand : program.strands) {
      for (const RankStep& step : strand.steps) {
        if (step.kind != RankStep::Kind::Look) continue;
        Line& line = line_at(step.of);
        line.farthest_s = std::max(line.farthest_s, line_s(strand.rank, owner_of(step.of)));
      }
    }
  }

  Seconds run() {
    for (std::size_t s = 0; s < program_.strands.size(); ++s) resume(s, 0);
    Seconds end = 0;
    while (!ready_.empty()) {
      const auto [now, order, s] = ready_.top();
      ready_.pop();
      const Strand& strand = program_.strands[s];
      if (next_[s] == strand.steps.size()) continue;
      const RankStep& step = strand.steps[next_[s]];
      Seconds& core_free = core_free_[static_cast<std::size_t>(strand.rank)];
      if (step.kind == RankStep::Kind::Look && now < line_at(step.of).visible_at) {
        wait_for(step.of, s);
      } else if (now < core_free) {
        resume(s, core_free);
      } else {
        ++next_[s];
        core_free = perform(step, strand.rank, now);
        end = std::max(end, core_free);
        resume(s, core_free);
      }
    }
    return end;
  }

 private:
  /// A line in a cache that did not write it.
  struct Copy {
    int cache = 0;
    Seconds free_at = 0;  ///< from then on, it serves the next reader
  };
  struct Line {
    Seconds visible_at = kNever;
    Seconds owner_free_at = 0;  ///< the owner's cache, for other caches
    Seconds farthest_s = 0;     ///< the invalidation of the farthest reader's copy, before the line may be written
    std::vector<Copy> copies;
    std::vector<std::size_t> waiters;  // strands
  };
  static constexpr Seconds kNever = 1e9;

  int owner_of(int line) const { return program_.owners[static_cast<std::size_t>(line)]; }
  Line& line_at(int line) { return lines_[static_cast<std::size_t>(line)]; }
  Seconds line_s(int a, int b) const { return costs_.line_s[static_cast<std::size_t>(levels_.between(a, b))]; }
  void resume(std::size_t strand, Seconds at) { ready_.emplace(at, order_++, strand); }

  void wait_for(int line, std::size_t strand) {
    Line& l = line_at(line);
    l.visible_at == kNever ? l.waiters.push_back(strand) : resume(strand, l.visible_at);
  }

  /// Returns the time at which the rank goes on.
  Seconds perform(const RankStep& step, int rank, Seconds now) {
    switch (step.kind) {
      case RankStep::Kind::Work: return now + step.amount;
      case RankStep::Kind::Post: return post(step.of, now);
      case RankStep::Kind::Look: return look(step.of, step.amount, rank, now);
      case RankStep::Kind::Read: break;
    }
    return read(step.of, step.amount, rank, now);
  }

  Seconds post(int line, Seconds now) {
    Line& l = line_at(line);
    l.visible_at = now + l.farthest_s;
    for (const std::size_t strand : l.waiters) resume(strand, l.visible_at);
    l.waiters.clear();
    return now;
  }

  Seconds look(int line, double bytes, int rank, Seconds now) {
    Line& l = line_at(line);
    const int cache = levels_.domain(HostPart::Cache, rank);
    const int owner = owner_of(line);
    const Seconds near = costs_.line_s[0] + bytes / costs_.bytes_per_s(Shared::Cache);
    auto copy = std::ranges::find(l.copies, cache, &Copy::cache);
    const bool at_home = levels_.domain(HostPart::Cache, owner) == cache;
    if (copy == l.copies.end() && at_home) copy = l.copies.insert(copy, Copy{cache, 0});
    if (copy != l.copies.end()) {
      copy->free_at = std::max(copy->free_at, now) + near;
      return copy->free_at + costs_.look_s;
    }
    const Shared shared = levels_.between(rank, owner);
    const Seconds far = line_s(rank, owner) + bytes / costs_.bytes_per_s(shared);
    l.owner_free_at = std::max(l.owner_free_at, now) + far;
    l.copies.push_back({cache, l.owner_free_at});
    return l.owner_free_at + costs_.look_s;
  }

  Seconds read(int of, double bytes, int rank, Seconds now) {
    const Shared shared = levels_.between(rank, of);
    Seconds end = now + line_s(rank, of) + bytes / costs_.bytes_per_s(shared);
    if (shared == Shared::Cache) return end;
    const auto from = static_cast<std::size_t>(levels_.domain(HostPart::NumaNode, of));
    const auto to = static_cast<std::size_t>(levels_.domain(HostPart::NumaNode, rank));
    end = std::max(end, use(node_free_[from], bytes / costs_.node_bytes_per_s, now));
    if (shared == Shared::Host) {
      const auto a = static_cast<std::size_t>(levels_.domain(HostPart::Package, of));
      const auto b = static_cast<std::size_t>(levels_.domain(HostPart::Package, rank));
      const auto sockets = static_cast<std::size_t>(levels_.domains(HostPart::Package));
      end = std::max(end, use(socket_link_free_[a * sockets + b], bytes / costs_.socket_link_bytes_per_s, now));
    } else if (from != to) {
      Seconds& link = node_link_free_[from * node_free_.size() + to];
      end = std::max(end, use(link, bytes / costs_.node_link_bytes_per_s, now));
    }
    return end;
  }

  static Seconds use(Seconds& free_at, Seconds busy, Seconds now) {
    free_at = std::max(free_at, now) + busy;
    return free_at;
  }

  using Event = std::tuple<Seconds, std::uint64_t, std::size_t>;  // time, order, strand

  const CallProgram& program_;
  const Levels& levels_;
  const HostCosts& costs_;
  std::vector<Line> lines_;
  std::vector<std::size_t> next_;   // step, by strand
  std::vector<Seconds> core_free_;  // by rank
  std::vector<Seconds> node_free_;
  std::vector<Seconds> node_link_free_;    // from a node to a node
  std::vector<Seconds> socket_link_free_;  // from a socket to a socket
  std::uint64_t order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> ready_;
};

}  // namespace

Seconds simulate(const ModelCall& call, Protocol protocol, const Levels& levels, const HostCosts& costs) {
  const auto run = [&](std::uint64_t chunks) {
    const CallProgram program = program_of(call, protocol, levels, costs, chunks);
    return HostRun(program, levels, costs).run();
  };
  const std::uint64_t chunks = chunks_of(call, protocol, static_cast<std::uint64_t>(levels.ranks()));
  const std::uint64_t most = protocol == Protocol::TreeChunks ? kSimulatedOfTree : kSimulatedChunks;
  const Seconds first = run(most);
  if (chunks <= most) return first;
  const Seconds each = (first - run(most / 2)) / static_cast<double>(most - most / 2);
  return first + static_cast<double>(chunks - most) * each;
}

}  // namespace sinew::shm
