#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sinew/collectives/schedule.hpp>
#include <sinew/collectives/schedule/cells.hpp>
#include <sinew/collectives/schedule/dependencies.hpp>

namespace sinew::test {

/// Wrong schedules, made from a right one by a single change each. Changes that leave a right schedule are not made:
///   - a dependency goes only if its two steps touch the same memory (the others merely keep the number of messages
///     under way small), and no other path between them is left, since derive_dependencies leaves out implied ones;
///   - a slice moves only to other memory, and reads do not move between an input and its copy in the output;
///   - the operands of a sum do not change places, nor with those of another that lie in the same memory;
///   - two sends of the same data do not exchange their peers, nor two receives whose data meet in one sum or, outside
///     all_reduce, in one result: there every order is as good. Nor
///     two receives of tokens that a barrier keeps: they may lie anywhere.
class Mutants {
 public:
  using Visit = std::function<void(const Schedule&, const std::string&)>;

  Mutants(const Schedule& original, Visit visit) : original_(original), visit_(std::move(visit)) {}

  void each() {
    for (rank_ = 0; rank_ < original_.programs.size(); ++rank_) {
      classes();
      wholeness();
      for (step_ = 0; step_ < program().steps.size(); ++step_) {
        drop_step();
        dependencies();
        peers();
        numbers();
        slices();
        sums();
        maps();
      }
    }
  }

 private:
  const Program& program() const { return original_.programs[rank_]; }
  const Step& step() const { return program().steps[step_]; }
  bool is_message(const Step& s) const { return s.op == Op::Send || s.op == Op::Recv; }

  /// Hands on a copy of the original with one program changed.
  void make(const std::string& what, const std::function<void(Program&)>& change) {
    Schedule mutant = original_;
    change(mutant.programs[rank_]);
    visit_(mutant, "rank " + std::to_string(rank_) + " step " + std::to_string(step_) + ": " + what);
  }
  void change_step(const std::string& what, const std::function<void(Step&)>& change) {
    make(what, [&](Program& p) { change(p.steps[step_]); });
  }
  /// As the builder would finish it: only the meaning of the change is left to be found.
  void finish(Program& p) const {
    std::vector<std::uint32_t> sent(p.ranks), received(p.ranks);
    for (Step& s : p.steps) {
      if (is_message(s)) s.match = (s.op == Op::Send ? sent : received)[s.peer]++;
      s.deps = {};
    }
    p.dependencies.clear();
    derive_dependencies(original_.desc.collective, p);
  }
  void change_and_finish(const std::string& what, const std::function<void(Step&)>& change) {
    make(what + ", finished", [&](Program& p) {
      change(p.steps[step_]);
      finish(p);
    });
  }

  void classes() {
    step_ = 0;
    for (const auto member : {&Program::in_class, &Program::out_class, &Program::scratch_class}) {
      for (std::size_t i = 0; i < (program().*member).size(); ++i) {
        make("another class of a chunk", [&](Program& p) { ++(p.*member)[i]; });
      }
    }
  }

  void wholeness() {
    if (program().ranks == 1) return;
    make("cut otherwise than the others", [](Program& p) { p.whole = !p.whole; });
    make("with sizes otherwise than the others", [](Program& p) { p.sized = !p.sized; });
  }

  void drop_step() {
    make("step dropped", [&](Program& p) {
      p.steps.erase(p.steps.begin() + step_);
      finish(p);
    });
  }

  void dependencies() {
    for (std::uint32_t k = 0; k < step().deps.count; ++k) {
      const std::uint32_t d = program().dependencies[step().deps.first + k];
      if (collide(program().steps[d], step())) {
        make("dependency on " + std::to_string(d) + " dropped", [&](Program& p) {
          DepRange& deps = p.steps[step_].deps;
          std::swap(p.dependencies[deps.first + k], p.dependencies[deps.first + deps.count - 1]);
          --deps.count;
        });
      }
      make("dependency on " + std::to_string(d) + " reversed", [&](Program& p) {
        p.dependencies[p.steps[step_].deps.first + k] = step_ + 1 < p.steps.size() ? step_ + 1 : step_;
        p.steps[d].deps = {static_cast<std::uint32_t>(p.dependencies.size()), 1};
        p.dependencies.push_back(step_);
      });
    }
  }

  void peers() {
    if (!is_message(step())) return;
    if (program().ranks > 2) {
      const int other = other_peer(step().peer);
      change_step("another peer", [&](Step& s) { s.peer = other; });
      change_and_finish("another peer", [&](Step& s) { s.peer = other; });
    }
    change_step("itself as peer", [&](Step& s) { s.peer = static_cast<int>(rank_); });
    change_step("a peer that is not there", [&](Step& s) { s.peer = program().ranks; });
    for (std::uint32_t t = step_ + 1; t < program().steps.size(); ++t) {
      const Step& later = program().steps[t];
      if (later.op != step().op || later.peer == step().peer || interchangeable(later, step())) continue;
      make("peers exchanged with step " + std::to_string(t), [&](Program& p) {
        std::swap(p.steps[step_].peer, p.steps[t].peer);
        finish(p);
      });
    }
  }

  void numbers() {
    if (!is_message(step())) return;
    change_step("next number", [](Step& s) { ++s.match; });
    for (std::uint32_t t = step_ + 1; t < program().steps.size(); ++t) {
      const Step& later = program().steps[t];
      if (later.op != step().op || later.peer != step().peer) continue;
      make("numbers exchanged with step " + std::to_string(t),
           [&](Program& p) { std::swap(p.steps[step_].match, p.steps[t].match); });
    }
  }

  void slices() {
    for (const auto member : {&Step::a, &Step::b, &Step::dst}) {
      const Slice from = step().*member;
      if (from.count == 0) continue;
      for (const Space space : {Space::In, Space::Out, Space::Scratch}) {
        for (const int shift : {-1, 0, 1}) {
          const Slice to{space, from.first + static_cast<std::uint32_t>(shift), from.count};
          if (!inside(to) || cells().same(from, to) || (member != &Step::dst && copied(from, to))) continue;
          change_step("slice moved", [&](Step& s) { s.*member = to; });
          change_and_finish("slice moved", [&](Step& s) { s.*member = to; });
        }
      }
      change_step("slice longer", [&](Step& s) { ++(s.*member).count; });
      change_step("slice gone", [&](Step& s) { (s.*member).count = 0; });
    }
  }

  void sums() {
    const Step& s = step();
    if (s.op == Op::Copy || s.op == Op::Send || s.a.count == 0) return;
    make("operand added twice", [&](Program& p) {
      Step again{.op = Op::Reduce, .a = s.dst, .b = s.op == Op::Reduce ? s.b : s.a, .dst = s.dst};
      p.steps.insert(p.steps.begin() + step_ + 1, again);
      finish(p);
    });
    if (s.op != Op::Reduce || original_.desc.collective != Collective::AllReduce) return;
    for (std::uint32_t t = step_ + 1; t < program().steps.size(); ++t) {
      if (program().steps[t].op != Op::Reduce || cells().same(s.b, program().steps[t].b)) continue;
      make("operands exchanged with step " + std::to_string(t), [&](Program& p) {
        std::swap(p.steps[step_].b, p.steps[t].b);
        finish(p);
      });
    }
  }

  void maps() {
    if (step().op == Op::Send) return;
    for (const ElementMap map : {ElementMap::None, ElementMap::Scale, ElementMap::Encode, ElementMap::Decode}) {
      if (map != step().map) change_step("another element map", [&](Step& s) { s.map = map; });
    }
  }

  Cells cells() const { return Cells(original_.desc.collective, program()); }
  bool inside(Slice s) const {
    const Program& p = program();
    const auto& chunks = s.space == Space::In ? p.in_class : s.space == Space::Out ? p.out_class : p.scratch_class;
    return s.first < chunks.size() && s.first + s.count <= chunks.size();
  }
  int other_peer(int peer) const {
    do {
      peer = (peer + 1) % program().ranks;
    } while (peer == static_cast<int>(rank_));
    return peer;
  }
  bool interchangeable(const Step& x, const Step& y) const {
    if (x.op == Op::Send) return cells().same(x.a, y.a) || copied(x.a, y.a);
    if (reduces(original_.desc.collective) && original_.desc.collective != Collective::AllReduce) return true;
    const auto sent_on = [&](const Step& s) {
      return s.op == Op::Send && (overlap(s.a, x.dst) || overlap(s.a, y.dst));
    };
    if (original_.desc.collective == Collective::Barrier && x.dst.count == y.dst.count) {
      return std::none_of(program().steps.begin(), program().steps.end(), sent_on);
    }
    const Cells cell = cells();
    const Slice of_x = added_to(x);
    const Slice of_y = added_to(y);
    return cell.same(of_x, of_y) || std::any_of(program().steps.begin(), program().steps.end(), [&](const Step& s) {
             return s.op == Op::Reduce &&
                    ((cell.same(s.a, of_x) && cell.same(s.b, of_y)) || (cell.same(s.a, of_y) && cell.same(s.b, of_x)));
           });
  }
  /// Where a receive leaves its data, of a coded sum where they are first added up.
  Slice added_to(const Step& receive) const {
    const Program& p = program();
    Slice at = receive.dst;
    if (at.space != Space::Scratch || (p.scratch_class[at.first] & kCoded) == 0) return at;
    at = at.part(0);  // chunks of a run go the same way
    for (const Step* s = &receive + 1; s != p.steps.data() + p.steps.size(); ++s) {
      if (s->op == Op::Copy && s->map == ElementMap::Decode && cells().same(s->a, at)) at = s->dst;
      if (s->op == Op::Reduce && (cells().same(s->a, at) || cells().same(s->b, at))) return s->dst;
    }
    return at;
  }
  /// Whether the program copies one to the other.
  bool copied(Slice x, Slice y) const {
    const Cells cell = cells();
    return std::any_of(program().steps.begin(), program().steps.end(), [&](const Step& s) {
      return s.op == Op::Copy &&
             ((cell.same(s.a, x) && cell.same(s.dst, y)) || (cell.same(s.a, y) && cell.same(s.dst, x)));
    });
  }
  bool overlap(Slice x, Slice y) const {
    const Cells cell = cells();
    for (std::uint32_t i = 0; i < x.count; ++i) {
      for (std::uint32_t k = 0; k < y.count; ++k) {
        if (cell.of(x.space, x.first + i) == cell.of(y.space, y.first + k)) return true;
      }
    }
    return false;
  }
  /// Whether two steps touch the same memory, one of them writing.
  bool collide(const Step& x, const Step& y) const {
    return overlap(x.dst, y.dst) || overlap(x.dst, y.a) || overlap(x.dst, y.b) || overlap(y.dst, x.a) ||
           overlap(y.dst, x.b);
  }

  const Schedule& original_;
  Visit visit_;
  std::size_t rank_ = 0;
  std::uint32_t step_ = 0;
};

}  // namespace sinew::test
