#include <algorithm>

#include <sinew/transports/shm/memory/layout.hpp>
#include <sinew/transports/shm/model/chunking.hpp>
#include <sinew/transports/shm/model/tree.hpp>
#include <sinew/transports/shm/simulator/call_program.hpp>

namespace sinew::shm {
namespace {

using Kind = RankStep::Kind;

class ProgramWriter {
 public:
  ProgramWriter(const ModelCall& call, const Levels& levels, const HostCosts& costs)
      : call_(call),
        levels_(levels),
        costs_(costs),
        bytes_(static_cast<double>(call.bytes)),
        behind_(call.bytes > kInlineBytes ? bytes_ : 0) {
    for (int r = 0; r < levels.ranks(); ++r) program_.strands.push_back({r, {}});
  }

  CallProgram take() { return std::move(program_); }

  void write_flat() {
    const std::vector<int> lines = announce(copying(bytes_));
    if (call_.collective == Collective::Broadcast) return for_readers([&](int r) { look(r, line(lines, call_.root)); });
    for_combiners([&](int r) {
      for_others(0, r, [&](int p) { look(r, line(lines, p)); });
      combine(r, bytes_);
    });
  }

  void write_tree() {
    const bool up = call_.collective != Collective::Broadcast;
    const bool down = call_.collective != Collective::Reduce;
    const std::vector<int> ups = new_lines();
    const std::vector<int> downs = new_lines();
    for (int r = 0; r < ranks(); ++r) {
      const Tree tree = tree_of(r, call_.root, levels_);
      work(r, costs_.call_s);
      if (up) {
        for (const int child : tree.children) look(r, line(ups, child));
        work(r, costs_.step_s + copying(bytes_ * (1 + static_cast<double>(tree.children.size()))));
        if (tree.parent >= 0) post(r, line(ups, r));
      }
      if (!down) continue;
      if (tree.parent >= 0) look(r, line(downs, tree.parent));
      work(r, costs_.step_s + copying(bytes_));
      if (!tree.children.empty()) post(r, line(downs, r));
    }
  }

  /// The ways up and down are strands of their own, since a rank does what it can.
  void write_tree_chunks(std::uint64_t most_chunks) {
    const std::uint64_t length = tree_chunk_bytes(call_.bytes);
    const std::uint64_t chunks = std::min(tree_chunks(call_.bytes), most_chunks);
    const std::vector<int> met = announce(0);
    for (int r = 0; r < ranks(); ++r) program_.strands.push_back({r, {}});
    std::vector<std::vector<int>> passed;
    std::vector<std::vector<int>> pulled;
    for (std::uint64_t c = 0; c < chunks; ++c) {
      staged_.push_back(new_lines());
      taken_.push_back(new_lines());
      passed.push_back(new_lines());
      pulled.push_back(new_lines());
    }
    const bool goes_up = call_.collective != Collective::Broadcast;
    const bool comes_down = call_.collective != Collective::Reduce;
    for (int r = 0; r < ranks(); ++r) {
      const Tree tree = tree_of(r, call_.root, levels_, kLongFanIn);
      const int up = goes_up ? r : ranks() + r;
      const int down = ranks() + r;
      if (tree.parent >= 0) look_at_flag(up, line(met, tree.parent));
      for (const int child : tree.children) look_at_flag(up, line(met, child));
      for (std::uint64_t c = 0; c < chunks; ++c) {
        const auto bytes = static_cast<double>(std::min(length, call_.bytes - c * length));
        const auto before = static_cast<std::size_t>(c - std::min<std::uint64_t>(c, stages_));
        if (goes_up) {
          for (const int child : tree.children) look_at_flag(up, line(staged_[c], child));
          if (c >= stages_ && tree.parent >= 0) look_at_flag(up, line(taken_[before], tree.parent));
          for (const int child : tree.children) read(up, child, bytes);
          work(up, costs_.step_s + copying(bytes * (1 + static_cast<double>(tree.children.size()))));
          if (tree.parent >= 0) post(up, line(staged_[c], r));
          if (!tree.children.empty()) post(up, line(taken_[c], r));
        }
        if (!comes_down) continue;
        if (tree.parent >= 0) look_at_flag(down, line(passed[c], tree.parent));
        for (const int child : tree.children) {
          if (c >= stages_) look_at_flag(down, line(pulled[before], child));
        }
        if (tree.parent >= 0) read(down, tree.parent, bytes);
        if (tree.parent < 0 && goes_up) {
          post(up, line(passed[c], r));
          continue;
        }
        work(down, costs_.step_s + copying(bytes));
        if (tree.parent >= 0) post(down, line(pulled[c], r));
        if (!tree.children.empty()) post(down, line(passed[c], r));
      }
    }
  }

  void write_slot() {
    const std::vector<int> lines = announce(copying(bytes_));
    if (call_.collective == Collective::Broadcast) {
      return for_readers([&](int r) {
        look_at_flag(r, line(lines, call_.root));
        read(r, call_.root, bytes_);
      });
    }
    for_combiners([&](int r) {
      for_others(0, r, [&](int p) { look_at_flag(r, line(lines, p)); });
      for_others(r, r, [&](int p) { read(r, p, bytes_); });
      combine(r, bytes_);
    });
  }

  void write_chunks(std::uint64_t most_chunks) {
    chunking_ = Chunking(call_.collective, call_.bytes, static_cast<std::uint64_t>(ranks()), call_.chunk_bytes);
    const std::uint64_t chunks = std::min(chunking_.chunks, most_chunks);
    const std::vector<int> met = announce(0);
    for (int r = 0; r < ranks(); ++r) for_others(0, r, [&](int p) { look_at_flag(r, line(met, p)); });
    for (std::uint64_t c = 0; c < chunks; ++c) {
      staged_.push_back(new_lines());
      taken_.push_back(new_lines());
    }
    for (std::uint64_t c = 0; c < chunks; ++c) {
      switch (call_.collective) {
        case Collective::AllReduce: reduce_chunk(c); break;
        case Collective::Broadcast: broadcast_chunk(c); break;
        case Collective::Reduce: reduce_chunk_to_root(c); break;
        default: gather_chunk(c);
      }
    }
  }

 private:
  int ranks() const { return levels_.ranks(); }
  static int line(const std::vector<int>& lines, int rank) { return lines[static_cast<std::size_t>(rank)]; }
  double copying(double bytes) const { return bytes / costs_.copy_bytes_per_s; }
  void add(int strand, RankStep step) { program_.strands[static_cast<std::size_t>(strand)].steps.push_back(step); }
  void work(int rank, Seconds seconds) { add(rank, {Kind::Work, 0, seconds}); }
  void post(int rank, int at) { add(rank, {Kind::Post, at, 0}); }
  void look(int rank, int at) { add(rank, {Kind::Look, at, behind_}); }
  void look_at_flag(int rank, int at) { add(rank, {Kind::Look, at, 0}); }
  void read(int rank, int of, double bytes) {
    if (bytes > 0) add(rank, {Kind::Read, of, bytes});
  }
  void combine(int rank, double bytes) {
    if (reduces(call_.collective)) work(rank, copying(bytes * ranks()));
  }

  /// A line of each rank.
  std::vector<int> new_lines() {
    std::vector<int> lines;
    for (int r = 0; r < ranks(); ++r) {
      lines.push_back(static_cast<int>(program_.owners.size()));
      program_.owners.push_back(r);
    }
    return lines;
  }
  /// All ranks announce the call.
  std::vector<int> announce(Seconds showing) {
    std::vector<int> lines = new_lines();
    for (int r = 0; r < ranks(); ++r) {
      work(r, costs_.call_s + (call_.collective != Collective::Broadcast || r == call_.root ? showing : 0));
      post(r, line(lines, r));
    }
    return lines;
  }
  /// The ranks but `rank`, from the one behind `first` on.
  template <class Do>
  void for_others(int first, int rank, Do act) {
    for (int i = 0; i < ranks(); ++i) {
      const int p = (first + i) % ranks();
      if (p != rank) act(p);
    }
  }
  template <class Do>
  void for_readers(Do act) {
    for_others(0, call_.root, act);
  }
  template <class Do>
  void for_combiners(Do act) {
    if (call_.collective == Collective::Reduce) return act(call_.root);
    for (int r = 0; r < ranks(); ++r) act(r);
  }

  /// The bytes of chunk c of a range.
  double part(std::uint64_t c, std::uint64_t range) const {
    const std::uint64_t begin = std::min(c * chunking_.chunk_bytes, range);
    return static_cast<double>(std::min(chunking_.chunk_bytes, range - begin));
  }
  std::uint64_t share_of(int rank) const {
    const std::uint64_t begin = std::min(static_cast<std::uint64_t>(rank) * chunking_.share_bytes, call_.bytes);
    return std::min(chunking_.share_bytes, call_.bytes - begin);
  }

  void reduce_chunk(std::uint64_t c) {
    double all = 0;
    for (int r = 0; r < ranks(); ++r) all += part(c, share_of(r));
    for (int r = 0; r < ranks(); ++r) {
      const double own = part(c, share_of(r));
      work(r, copying(all - own));
      post(r, line(staged_[c], r));
      for_others(0, r, [&](int p) { look_at_flag(r, line(staged_[c], p)); });
      for_others(r, r, [&](int p) { read(r, p, own); });
      work(r, copying(own * ranks()));
      post(r, line(taken_[c], r));
      for_others(r, r, [&](int p) {
        look_at_flag(r, line(taken_[c], p));
        read(r, p, part(c, share_of(p)));
      });
    }
  }
  void broadcast_chunk(std::uint64_t c) {
    const double bytes = part(c, call_.bytes);
    const int root = call_.root;
    if (c >= stages_) for_readers([&](int p) { look_at_flag(root, line(taken_[c - stages_], p)); });
    work(root, copying(bytes));
    post(root, line(staged_[c], root));
    for_readers([&](int r) {
      look_at_flag(r, line(staged_[c], root));
      read(r, root, bytes);
      post(r, line(taken_[c], r));
    });
  }
  void reduce_chunk_to_root(std::uint64_t c) {
    const double bytes = part(c, call_.bytes);
    const int root = call_.root;
    for_others(0, root, [&](int r) {
      if (c >= stages_) look_at_flag(r, line(taken_[c - stages_], root));
      work(r, copying(bytes));
      post(r, line(staged_[c], r));
      look_at_flag(root, line(staged_[c], r));
    });
    for_others(root, root, [&](int p) { read(root, p, bytes); });
    work(root, copying(bytes * ranks()));
    post(root, line(taken_[c], root));
  }
  void gather_chunk(std::uint64_t c) {
    const double bytes = part(c, call_.bytes);
    for (int r = 0; r < ranks(); ++r) {
      if (c >= stages_) for_others(0, r, [&](int p) { look_at_flag(r, line(taken_[c - stages_], p)); });
      work(r, copying(bytes));
      post(r, line(staged_[c], r));
      for_others(r, r, [&](int p) {
        look_at_flag(r, line(staged_[c], p));
        read(r, p, bytes);
      });
      post(r, line(taken_[c], r));
    }
  }

  const ModelCall& call_;
  const Levels& levels_;
  const HostCosts& costs_;
  double bytes_;
  double behind_;  // bytes behind the flag line
  const std::uint64_t stages_ = Stages(static_cast<std::uint64_t>(levels_.ranks())).count();
  Chunking chunking_;
  std::vector<std::vector<int>> staged_;  // lines, by chunk and rank
  std::vector<std::vector<int>> taken_;
  CallProgram program_;
};

}  // namespace

CallProgram program_of(const ModelCall& call, Protocol protocol, const Levels& levels, const HostCosts& costs,
                       std::uint64_t most_chunks) {
  ProgramWriter writer(call, levels, costs);
  switch (protocol) {
    case Protocol::Inline:
    case Protocol::Lines: writer.write_flat(); break;
    case Protocol::Tree: writer.write_tree(); break;
    case Protocol::TreeChunks: writer.write_tree_chunks(most_chunks); break;
    case Protocol::Slot: writer.write_slot(); break;
    case Protocol::Chunks:
    case Protocol::Parts: writer.write_chunks(most_chunks); break;
  }
  return writer.take();
}

}  // namespace sinew::shm
