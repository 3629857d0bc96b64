#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include <sinew/parallel/step_graph/passes/passes.hpp>
#include <sinew/parallel/step_graph/passes/rebuilt.hpp>

namespace sinew::parallel {
namespace {

std::string_view layer_of(std::string_view path) { return path.substr(0, std::min(path.rfind('.'), path.size())); }

/// The path up to its first word that is a number, with this word. If no word is a number, the layer.
std::string_view block_of(std::string_view path) {
  for (std::size_t from = 0; from < path.size();) {
    const std::size_t to = std::min(path.find('.', from), path.size());
    const std::string_view word = path.substr(from, to - from);
    if (!word.empty() && std::ranges::all_of(word, [](unsigned char c) { return std::isdigit(c) != 0; }))
      return path.substr(0, to);
    from = to + 1;
  }
  return layer_of(path);
}

/// An exchange of a graph, its wait, and the nodes between which both may move.
struct Span {
  std::size_t node = 0, wait = 0;
  /// One past the last node before it that names one of its tensors. An exchange that makes tensors from others does
  /// not move forward: the exchange itself.
  std::size_t from = 0;
  /// The first node after its wait that names one of its tensors, or the first one after it that writes an operand.
  std::size_t until = 0;
};

/// Exchanges that will be joined into one.
struct Bucket {
  std::vector<Span> members;
  std::size_t from = 0, until = 0;
  std::int64_t bytes = 0;
};

std::vector<Span> spans_of(const StepGraph& graph, const std::vector<Node>& nodes) {
  std::vector<Span> spans;
  // By number of an exchange: the index of its span.
  std::vector<std::size_t> number(static_cast<std::size_t>(graph.next_exchange()));
  std::vector<std::size_t> after(graph.tensors.size(), 0);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    if (is_exchange(node.kind)) {
      Span span{.node = i, .until = nodes.size()};
      for (const TensorId t : node.tensors) span.from = std::max(span.from, after[static_cast<std::size_t>(t)]);
      number[static_cast<std::size_t>(node.exchange)] = spans.size();
      spans.push_back(span);
    } else if (node.kind == NodeKind::Wait) {
      spans[number[static_cast<std::size_t>(node.exchange)]].wait = i;
    }
    for (const TensorId t : node.tensors) after[static_cast<std::size_t>(t)] = i + 1;
  }
  std::vector<std::size_t> next(graph.tensors.size(), nodes.size()), written = next;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    const Node& node = nodes[i];
    if (node.exchange >= 0) {
      Span& span = spans[number[static_cast<std::size_t>(node.exchange)]];
      if (node.kind == NodeKind::Wait) {
        for (const TensorId t : node.tensors) span.until = std::min(span.until, next[static_cast<std::size_t>(t)]);
      }
      for (const TensorId t : node.operands) span.until = std::min(span.until, written[static_cast<std::size_t>(t)]);
      if (!node.operands.empty()) span.from = i;
    }
    for (const TensorId t : node.tensors) {
      next[static_cast<std::size_t>(t)] = i;
      if (node.kind != NodeKind::Gate) written[static_cast<std::size_t>(t)] = i;
    }
    for (const TensorId t : node.operands) next[static_cast<std::size_t>(t)] = i;
  }
  return spans;
}

class Bucketing {
 public:
  Bucketing(StepGraph graph, const BucketPolicy& policy)
      : policy_(policy), graph_(std::move(graph)), spans_(spans_of(graph_, graph_.nodes)), rebuilt_(graph_.nodes) {}

  StepGraph run() && {
    for (const Span& span : spans_) {
      const Node& node = graph_.nodes[span.node];
      if (is_message(node.kind)) continue;  // the other end would have to join it as well
      if (!node.operands.empty()) close_before(span.node);
      const StepTensor& tensor = graph_.tensors[static_cast<std::size_t>(node.tensors.front())];
      Bucket& open = open_[{node.kind, node.axes, tensor.dtype, tensor.beside, !node.operands.empty()}];
      if (!open.members.empty() && !fits(open, span)) close(open);
      add(open, span);
    }
    for (auto& [key, open] : open_) close_last(open);
    graph_.nodes = std::move(rebuilt_).finish();
    return std::move(graph_);
  }

 private:
  std::string_view path_of(const Span& span) const {
    return graph_.tensors[static_cast<std::size_t>(graph_.nodes[span.node].tensors.front())].path;
  }

  std::int64_t bytes_of(const Span& span) const { return graph_.bytes(graph_.nodes[span.node]); }

  bool fits(const Bucket& open, const Span& span) const {
    if (std::max(open.from, span.from) > std::min(open.until, span.until)) return false;
    const std::string_view mine = path_of(span);
    const std::string_view theirs = path_of(open.members.front());
    if (std::holds_alternative<LayerBuckets>(policy_)) return layer_of(mine) == layer_of(theirs);
    if (std::holds_alternative<BlockBuckets>(policy_)) return block_of(mine) == block_of(theirs);
    const auto* by_bytes = std::get_if<ByteBuckets>(&policy_);
    if (by_bytes == nullptr) return false;
    const std::int64_t room = closed_ == 0 ? std::min(by_bytes->first_bytes, by_bytes->bytes) : by_bytes->bytes;
    return open.bytes + bytes_of(span) <= room;
  }

  /// Closes the buckets whose results a node at `place` or before it needs. An exchange of such a result then comes
  /// after them.
  void close_before(std::size_t place) {
    for (auto& [key, open] : open_) {
      if (!open.members.empty() && open.until <= place) close(open);
    }
  }

  void add(Bucket& open, const Span& span) const {
    open.from = open.members.empty() ? span.from : std::max(open.from, span.from);
    open.until = open.members.empty() ? span.until : std::min(open.until, span.until);
    open.bytes += bytes_of(span);
    open.members.push_back(span);
  }

  /// Closes the last bucket of its kind. With ByteBuckets, its last exchanges become a smaller bucket of their own.
  void close_last(Bucket& open) {
    const auto* by_bytes = std::get_if<ByteBuckets>(&policy_);
    if (by_bytes != nullptr && open.bytes > by_bytes->last_bytes && open.members.size() > 1) {
      std::size_t tail = open.members.size() - 1;
      std::int64_t bytes = bytes_of(open.members[tail]);
      while (tail > 1 && bytes + bytes_of(open.members[tail - 1]) <= by_bytes->last_bytes)
        bytes += bytes_of(open.members[--tail]);
      Bucket before;
      for (std::size_t i = 0; i < tail; ++i) add(before, open.members[i]);
      close(before);
      const std::vector<Span> members(open.members.begin() + static_cast<std::ptrdiff_t>(tail), open.members.end());
      open = {};
      for (const Span& member : members) add(open, member);
    }
    close(open);
  }

  /// Joins the members into one exchange. It starts at the place of the first member, or after it, as soon as all
  /// members can start. Its wait is as near to the wait of the first member as the tensors allow.
  void close(Bucket& open) {
    ++closed_;
    if (open.members.size() > 1) {
      Node exchange = graph_.nodes[open.members.front().node];
      std::size_t wait = open.members.front().wait;
      exchange.tensors.clear();
      exchange.operands.clear();
      for (const Span& member : open.members) {
        const Node& node = graph_.nodes[member.node];
        exchange.tensors.insert(exchange.tensors.end(), node.tensors.begin(), node.tensors.end());
        exchange.operands.insert(exchange.operands.end(), node.operands.begin(), node.operands.end());
        rebuilt_.drop(member.node);
        rebuilt_.drop(member.wait);
      }
      Node end{.kind = NodeKind::Wait, .tensors = exchange.tensors, .exchange = exchange.exchange};
      const std::size_t start = std::max(open.from, open.members.front().node);
      wait = std::clamp(wait, start, open.until);
      rebuilt_.put(std::move(exchange), start);
      rebuilt_.put(std::move(end), wait);
    }
    open = {};
  }

  const BucketPolicy& policy_;
  StepGraph graph_;
  std::vector<Span> spans_;
  Rebuilt rebuilt_;
  // By kind, axes, dtype, StepTensor::beside, and whether tensors are made from others.
  std::map<std::tuple<NodeKind, std::string, DType, DType, bool>, Bucket> open_;
  std::size_t closed_ = 0;
};

}  // namespace

StepGraph bucket(StepGraph graph, const BucketPolicy& policy) { return Bucketing(std::move(graph), policy).run(); }

}  // namespace sinew::parallel
