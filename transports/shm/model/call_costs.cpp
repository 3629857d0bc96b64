#include <algorithm>
#include <utility>

#include <sinew/transports/shm/memory/layout.hpp>
#include <sinew/transports/shm/model/call_costs.hpp>
#include <sinew/transports/shm/model/chunking.hpp>
#include <sinew/transports/shm/model/tree.hpp>

namespace sinew::shm {
namespace {

constexpr std::array kAllShared{Shared::Cache, Shared::NumaNode, Shared::Package, Shared::Host};

double& of_shared(std::array<double, kShared>& counts, Shared shared) noexcept {
  return counts[static_cast<std::size_t>(shared)];
}
double of_shared(const std::array<double, kShared>& counts, Shared shared) noexcept {
  return counts[static_cast<std::size_t>(shared)];
}

bool has_tree(Collective c) noexcept {
  return c == Collective::AllReduce || c == Collective::Broadcast || c == Collective::Reduce ||
         c == Collective::Barrier;
}

}  // namespace

std::vector<Protocol> protocols_for(const ModelCall& call, int ranks) {
  std::vector<Protocol> found;
  if (call.bytes <= kLinesBytes) {
    found.push_back(call.bytes <= kInlineBytes ? Protocol::Inline : Protocol::Lines);
    if (ranks > 2 && has_tree(call.collective)) found.push_back(Protocol::Tree);
  }
  if (call.bytes > kInlineBytes && call.bytes <= kSlotMostBytes) found.push_back(Protocol::Slot);
  if (call.bytes > kInlineBytes && ranks > 2 && has_tree(call.collective)) found.push_back(Protocol::TreeChunks);
  if (call.bytes > kInlineBytes) found.push_back(Protocol::Chunks);
  return found;
}

CallCosts::CallCosts(Levels levels, const HostCosts& costs) : levels_(std::move(levels)), costs_(costs) {
  const int ranks = levels_.ranks();
  in_node_.resize(static_cast<std::size_t>(levels_.domains(HostPart::NumaNode)));
  socket_of_.resize(in_node_.size());
  for (int r = 0; r < ranks; ++r) {
    const int node = node_of_.emplace_back(levels_.domain(HostPart::NumaNode, r));
    ++in_node_[static_cast<std::size_t>(node)];
    socket_of_[static_cast<std::size_t>(node)] = levels_.domain(HostPart::Package, r);
  }
  std::vector<double> read_outside(in_node_.size());  // pairs of an owner in the node and a reader outside its cache
  std::vector<double> in_socket(static_cast<std::size_t>(levels_.domains(HostPart::Package)));
  for (int r = 0; r < ranks; ++r) {
    const Counts near = ranks_near(r);
    for (const Shared s : kAllShared) of_shared(usual_, s) += of_shared(near, s) / ranks;
    read_outside[static_cast<std::size_t>(node_of_[static_cast<std::size_t>(r)])] +=
        ranks - 1 - of_shared(near, Shared::Cache);
  }
  for (std::size_t n = 0; n < in_node_.size(); ++n) {
    in_socket[static_cast<std::size_t>(socket_of_[n])] += in_node_[n];
    most_across_links_ = std::max(most_across_links_, read_outside[n] / costs_.node_bytes_per_s);
    for (std::size_t m = 0; m < n; ++m) {
      if (socket_of_[n] == socket_of_[m])
        most_across_links_ = std::max(most_across_links_, in_node_[n] * in_node_[m] / costs_.node_link_bytes_per_s);
    }
  }
  for (std::size_t s = 0; s < in_socket.size(); ++s) {
    for (std::size_t t = 0; t < s; ++t)
      most_across_links_ = std::max(most_across_links_, in_socket[s] * in_socket[t] / costs_.socket_link_bytes_per_s);
  }
}

CallCosts::Counts CallCosts::ranks_near(int rank) const {
  Counts counts{};
  for (int r = 0; r < levels_.ranks(); ++r) {
    if (r != rank) ++of_shared(counts, levels_.between(rank, r));
  }
  return counts;
}

/// The caches of other ranks. The cache of `rank` is not among them.
CallCosts::Counts CallCosts::caches_near(int rank) const {
  Counts counts{};
  std::vector<bool> seen(static_cast<std::size_t>(levels_.domains(HostPart::Cache)));
  seen[static_cast<std::size_t>(levels_.domain(HostPart::Cache, rank))] = true;
  for (int r = 0; r < levels_.ranks(); ++r) {
    const auto cache = static_cast<std::size_t>(levels_.domain(HostPart::Cache, r));
    if (!seen[cache]) ++of_shared(counts, levels_.between(rank, r));
    seen[cache] = true;
  }
  return counts;
}

/// Returns the time in which one rank looks at a line of each of these ranks and reads so many bytes behind each line.
Seconds CallCosts::looks(const Counts& ranks, double bytes) const {
  Seconds sum = 0;
  for (const Shared s : kAllShared)
    sum += of_shared(ranks, s) * (costs_.look_s + of_shared(costs_.line_s, s) + bytes / costs_.bytes_per_s(s));
  return sum;
}

Seconds CallCosts::farthest_line_s(const Counts& ranks) const {
  Seconds most = 0;
  for (const Shared s : kAllShared) {
    if (of_shared(ranks, s) > 0) most = std::max(most, of_shared(costs_.line_s, s));
  }
  return most;
}

/// Returns the time in which all ranks read the same lines of the root. The lines go to one cache after the other, and
/// in each cache to one core after the other.
Seconds CallCosts::shared_read(int root, double bytes) const {
  const Counts caches = caches_near(root);
  Seconds sum = 0;
  for (const Shared s : kAllShared)
    sum += of_shared(caches, s) * (of_shared(costs_.line_s, s) + bytes / costs_.bytes_per_s(s));
  const double in_cache = static_cast<double>(levels_.ranks()) / levels_.domains(HostPart::Cache);
  return costs_.look_s + sum +
         (in_cache - 1) * (of_shared(costs_.line_s, Shared::Cache) + bytes / costs_.most_bytes_per_s);
}

Seconds CallCosts::all_to_all_links(double bytes_per_pair) const { return bytes_per_pair * most_across_links_; }

/// Returns the time for which the busiest memory or link is in use if all ranks read so many bytes from the root.
Seconds CallCosts::from_root_links(int root, double bytes) const {
  const Counts near = ranks_near(root);
  const double outside = levels_.ranks() - 1 - of_shared(near, Shared::Cache);
  Seconds most = bytes * outside / costs_.node_bytes_per_s;
  const auto own = static_cast<std::size_t>(node_of_[static_cast<std::size_t>(root)]);
  std::vector<double> in_socket(static_cast<std::size_t>(levels_.domains(HostPart::Package)));
  for (std::size_t n = 0; n < in_node_.size(); ++n) {
    in_socket[static_cast<std::size_t>(socket_of_[n])] += in_node_[n];
    if (n != own && socket_of_[n] == socket_of_[own])
      most = std::max(most, bytes * in_node_[n] / costs_.node_link_bytes_per_s);
  }
  for (std::size_t s = 0; s < in_socket.size(); ++s) {
    if (static_cast<int>(s) != socket_of_[own])
      most = std::max(most, bytes * in_socket[s] / costs_.socket_link_bytes_per_s);
  }
  return most;
}

/// Protocol::Inline and Protocol::Lines.
Seconds CallCosts::flat(const ModelCall& call) const {
  const auto bytes = static_cast<double>(call.bytes);
  const double read = call.bytes > kInlineBytes ? bytes : 0;
  const Seconds begin = costs_.call_s + farthest_line_s(usual_) + bytes / costs_.copy_bytes_per_s;
  const Seconds combining = reduces(call.collective) ? levels_.ranks() * bytes / costs_.copy_bytes_per_s : 0;
  if (call.collective == Collective::Broadcast) return begin + shared_read(call.root, read);
  return begin + combining + looks(call.collective == Collective::Reduce ? ranks_near(call.root) : usual_, read);
}

/// So many bytes go up to the root, where something is reduced, and down again. Each level has a tree of its own. The
/// children of a rank are served one after the other. `read`: the part of the bytes that is behind the flag lines.
Seconds CallCosts::tree(const ModelCall& call, int fan_in, double bytes, double read) const {
  const bool up = call.collective != Collective::Broadcast;
  const bool down = call.collective != Collective::Reduce;
  Seconds sum = costs_.call_s;
  double below = levels_.ranks();  // domains of the level inside, or ranks
  for (std::size_t l = 0; l <= levels_.all().size(); ++l) {
    const bool outermost = l == levels_.all().size();
    const double domains = outermost ? 1 : levels_.all()[l].domains;
    const double members = below / domains;
    Shared shared = Shared::Cache;
    if (!outermost) {
      shared = static_cast<Shared>(levels_.all()[l].kind);
    } else {
      for (const Shared s : kAllShared) {
        if (of_shared(usual_, s) > 0) shared = s;
      }
    }
    const Seconds line = of_shared(costs_.line_s, shared);
    const Seconds one = costs_.look_s + line + read / costs_.bytes_per_s(shared);
    const double fan = std::min<double>(fan_in, members - 1);
    const double combined = (fan + 1) * bytes / costs_.copy_bytes_per_s;
    const Seconds step_up = costs_.step_s + line + fan * one + combined;
    const Seconds step_down = costs_.step_s + line + fan * one + bytes / costs_.copy_bytes_per_s;
    const int steps = tree_steps(static_cast<int>(members + 0.999), fan_in);
    sum += steps * ((up ? step_up : 0) + (down ? step_down : 0));
    below = domains;
  }
  return sum;
}

/// The first chunk passes through the whole tree. Then the root, which has the most children, takes its time for each
/// further chunk.
Seconds CallCosts::tree_chunks(const ModelCall& call) const {
  const double bytes = static_cast<double>(std::min(call.bytes, tree_chunk_bytes(call.bytes)));
  const double further = static_cast<double>(call.bytes) / bytes - 1;
  const Tree root = tree_of(call.root, call.root, levels_, kLongFanIn);
  Seconds up = 0;
  Seconds slowest = 0;
  for (const int child : root.children) {
    const Shared shared = levels_.between(call.root, child);
    const Seconds one = costs_.look_s + 2 * of_shared(costs_.line_s, shared) + bytes / costs_.bytes_per_s(shared);
    up += one + bytes / costs_.copy_bytes_per_s;
    slowest = std::max(slowest, one);
  }
  up += costs_.step_s + bytes / costs_.copy_bytes_per_s;
  const Seconds passing = costs_.step_s + slowest + bytes / costs_.copy_bytes_per_s;
  const bool is_sum = call.collective != Collective::Broadcast;
  const Seconds each = is_sum ? up + (call.collective == Collective::AllReduce ? passing : 0) : passing;
  return tree(call, kLongFanIn, bytes, bytes) + further * each;
}

Seconds CallCosts::slot(const ModelCall& call) const {
  const auto bytes = static_cast<double>(call.bytes);
  const Seconds begin = costs_.call_s + farthest_line_s(usual_) + bytes / costs_.copy_bytes_per_s;
  const Seconds combining = reduces(call.collective) ? levels_.ranks() * bytes / costs_.copy_bytes_per_s : 0;
  switch (call.collective) {
    case Collective::Broadcast: {
      const Seconds alone = farthest_line_s(usual_) + bytes / costs_.bytes_per_s(Shared::Host);
      return begin + std::max(shared_read(call.root, 0) + alone, from_root_links(call.root, bytes));
    }
    case Collective::Reduce: {
      const Counts near = ranks_near(call.root);
      return begin + looks(near, bytes) + looks(near, 0) + combining;
    }
    default: return begin + looks(usual_, 0) + std::max(looks(usual_, bytes), all_to_all_links(bytes)) + combining;
  }
}

Seconds CallCosts::chunks(const ModelCall& call) const {
  const auto ranks = static_cast<std::uint64_t>(levels_.ranks());
  const Chunking chunking(call.collective, call.bytes, ranks, call.chunk_bytes);
  const auto chunks = static_cast<double>(chunking.chunks);
  const auto bytes = static_cast<double>(call.bytes);
  const Seconds begin = costs_.call_s + farthest_line_s(usual_) + looks(usual_, 0);
  const Seconds staging = bytes / costs_.copy_bytes_per_s;
  const Seconds flags = chunks * (looks(usual_, 0) + farthest_line_s(usual_));
  switch (call.collective) {
    case Collective::AllReduce: {
      const auto share = std::min(static_cast<double>(chunking.share_bytes), bytes);
      const Seconds reading = looks(usual_, share) + (chunks - 1) * looks(usual_, 0);
      const Seconds combining = static_cast<double>(ranks) * share / costs_.copy_bytes_per_s;
      return begin + staging + combining + 2 * flags + 2 * std::max(reading, all_to_all_links(share));
    }
    case Collective::Broadcast: {
      const Seconds alone = chunks * 2 * farthest_line_s(usual_) + bytes / costs_.bytes_per_s(Shared::Host);
      const Seconds root =
          staging + std::max(chunks - static_cast<double>(Stages(ranks).count()), 0.0) * looks(usual_, 0);
      return begin + std::max({alone, root, from_root_links(call.root, bytes)}) +
             static_cast<double>(std::min<std::uint64_t>(chunking.chunk_bytes, call.bytes)) / costs_.copy_bytes_per_s;
    }
    case Collective::Reduce: {
      const Counts near = ranks_near(call.root);
      const Seconds combining = static_cast<double>(ranks) * bytes / costs_.copy_bytes_per_s;
      return begin + looks(near, bytes) + 2 * chunks * looks(near, 0) + combining;
    }
    default: {
      const Seconds reading = looks(usual_, bytes) + (chunks - 1) * looks(usual_, 0);
      return begin + staging + flags + std::max(reading, all_to_all_links(bytes));
    }
  }
}

Seconds CallCosts::seconds(const ModelCall& call, Protocol protocol) const {
  switch (protocol) {
    case Protocol::Inline:
    case Protocol::Lines: return flat(call);
    case Protocol::Tree: {
      const auto bytes = static_cast<double>(call.bytes);
      return tree(call, kFanIn, bytes, call.bytes > kInlineBytes ? bytes : 0);
    }
    case Protocol::TreeChunks: return tree_chunks(call);
    case Protocol::Slot: return slot(call);
    case Protocol::Chunks:
    case Protocol::Parts: break;
  }
  return chunks(call);
}

Protocol CallCosts::fastest(const ModelCall& call) const {
  const std::vector<Protocol> all = protocols_for(call, levels_.ranks());
  return *std::ranges::min_element(all, {}, [&](Protocol p) { return seconds(call, p); });
}

}  // namespace sinew::shm
