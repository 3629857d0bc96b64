#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/parallel/tensor/column_linear.hpp>
#include <sinew/parallel/tensor/row_linear.hpp>
#include <support/worlds.hpp>

#include "../support/naive_blas.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;

using Values = std::vector<double>;

/// An MLP of two linear layers with tanh between them, its data, and what it makes of them.
struct Mlp {
  std::int64_t rows, width, hidden;
  Values x = wave(rows * width, 1), up = wave(hidden * width, 2), up_bias = wave(hidden, 3),
         down = wave(width * hidden, 4), down_bias = wave(width, 5), dout = wave(rows * width, 6);

  static Values wave(std::int64_t count, int seed) {
    Values all(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::sin(0.9 * static_cast<double>(i) + seed);
    return all;
  }
};

struct Outcome {
  Values out, dx, up, up_bias, down, down_bias;
};

double& at(Values& v, std::int64_t i) { return v[static_cast<std::size_t>(i)]; }
double at(const Values& v, std::int64_t i) { return v[static_cast<std::size_t>(i)]; }

/// By sums over indices: neither layers nor products of the library.
Outcome by_hand(const Mlp& m) {
  const auto room = [](std::int64_t n) { return Values(static_cast<std::size_t>(n), 0.0); };
  Outcome o{room(m.rows * m.width), room(m.rows * m.width),   room(m.hidden * m.width),
            room(m.hidden),         room(m.width * m.hidden), room(m.width)};
  for (std::int64_t r = 0; r < m.rows; ++r) {
    Values bent = room(m.hidden), slope = room(m.hidden);
    for (std::int64_t h = 0; h < m.hidden; ++h) {
      double sum = at(m.up_bias, h);
      for (std::int64_t w = 0; w < m.width; ++w) sum += at(m.x, r * m.width + w) * at(m.up, h * m.width + w);
      at(bent, h) = std::tanh(sum);
    }
    for (std::int64_t w = 0; w < m.width; ++w) {
      double sum = at(m.down_bias, w);
      const double d = at(m.dout, r * m.width + w);
      for (std::int64_t h = 0; h < m.hidden; ++h) {
        sum += at(bent, h) * at(m.down, w * m.hidden + h);
        at(o.down, w * m.hidden + h) += d * at(bent, h);
        at(slope, h) += d * at(m.down, w * m.hidden + h);
      }
      at(o.out, r * m.width + w) = sum;
      at(o.down_bias, w) += d;
    }
    for (std::int64_t h = 0; h < m.hidden; ++h) {
      const double d = at(slope, h) * (1 - at(bent, h) * at(bent, h));
      at(o.up_bias, h) += d;
      for (std::int64_t w = 0; w < m.width; ++w) {
        at(o.up, h * m.width + w) += d * at(m.x, r * m.width + w);
        at(o.dx, r * m.width + w) += d * at(m.up, h * m.width + w);
      }
    }
  }
  return o;
}

Values rows(const Values& of, std::int64_t first, std::int64_t last, std::int64_t columns) {
  return {of.begin() + first * columns, of.begin() + last * columns};
}
Values columns(const Values& of, const Rows& mine, std::int64_t width) {
  Values part;
  for (std::size_t r = 0; r * static_cast<std::size_t>(width) < of.size(); ++r) {
    const auto row = of.begin() + static_cast<std::ptrdiff_t>(r) * width;
    part.insert(part.end(), row + mine.first, row + mine.last);
  }
  return part;
}

/// The same by two layers that share it; `out` and gradients of what this rank has.
Outcome by_layers(World& world, const Mlp& m, bool sequence_parallel, const Shard& cut, std::size_t* sent = nullptr,
                  bool decomposed = false) {
  Communicator& group = world.communicator();
  test::NaiveBlas blas;
  ColumnLinear<double> up(group, "tp", blas, {"up", m.rows, m.width, m.hidden, cut, sequence_parallel, {}, decomposed});
  RowLinear<double> down(group, "tp", blas,
                         {"down", m.rows, m.hidden, m.width, cut, sequence_parallel, {}, decomposed});
  const Rows mine = rows_of(cut, group.rank(), group.size(), m.hidden);
  const Rows own = sequence_parallel ? rows_of({}, group.rank(), group.size(), m.rows) : Rows{0, m.rows};
  require(up.outputs() == mine.count() && down.inputs() == mine.count() && up.own_rows() == own.count(), "shapes");
  const auto n = static_cast<std::size_t>(mine.count());
  const auto all = static_cast<std::size_t>(m.rows), width = static_cast<std::size_t>(m.width);
  const auto some = static_cast<std::size_t>(own.count());

  const Values x = rows(m.x, own.first, own.last, m.width), dout = rows(m.dout, own.first, own.last, m.width);
  const Values up_weight = rows(m.up, mine.first, mine.last, m.width), down_weight = columns(m.down, mine, m.hidden);
  const Values up_bias = rows(m.up_bias, mine.first, mine.last, 1);
  Values whole(all * width), bent(all * n), d_bent(all * n);
  Values partial(static_cast<std::size_t>(std::max(up.partial_rows(), down.partial_rows())) * width);
  Outcome o{Values(some * width), Values(some * width), Values(n * width, 1),
            Values(n, 1),         Values(width * n, 1), Values(width, 1)};
  up.forward(x.data(), up_weight.data(), up_bias.data(), whole.data(), bent.data());
  for (double& b : bent) b = std::tanh(b);
  down.forward(bent.data(), down_weight.data(), m.down_bias.data(), partial.data(), o.out.data());

  Values gathered(all * width);
  const double* d = down.input_gradient(dout.data(), down_weight.data(), gathered.data(), d_bent.data());
  down.weight_gradient(d, bent.data(), 1, o.down.data());  // adds to the ones that are there
  down.bias_gradient(dout.data(), 1, o.down_bias.data());
  for (std::size_t i = 0; i < bent.size(); ++i) d_bent[i] *= 1 - bent[i] * bent[i];
  auto dx = up.input_gradient(d_bent.data(), up_weight.data(), partial.data(), o.dx.data());
  up.weight_gradient(sequence_parallel ? whole.data() : x.data(), d_bent.data(), 1, o.up.data());
  up.bias_gradient(d_bent.data(), 1, o.up_bias.data());
  dx.get();
  for (Values* v : {&o.up, &o.up_bias, &o.down, &o.down_bias}) {
    for (double& value : *v) value -= 1;
  }
  if (sequence_parallel) group.all_reduce(o.down_bias).get();
  if (sent != nullptr) *sent = up.sent_bytes() + down.sent_bytes();
  return o;
}

double worst(const Values& a, const Values& b) {
  if (a.size() != b.size()) return 1e300;
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

TEST(Linear, IsTheWholeLayer_HoweverItIsCut) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    on_threads(ranks, only("inproc"), [&](World& world) {
      Shard lopsided{0, {0}};  // the first rank has nothing
      for (int r = 1; r <= ranks; ++r) lopsided.offsets.push_back(r == ranks ? 13 : r - 1);
      for (const auto& [sequence_parallel, decomposed] : {std::pair(false, false), {true, false}, {true, true}}) {
        for (const Shard& cut : {Shard{}, lopsided}) {
          const Mlp mlp{6, 5, 13};
          const Outcome whole = by_hand(mlp), mine = by_layers(world, mlp, sequence_parallel, cut, nullptr, decomposed);
          const Rows part = rows_of(cut, world.rank(), ranks, mlp.hidden);
          const Rows own = sequence_parallel ? rows_of({}, world.rank(), ranks, mlp.rows) : Rows{0, mlp.rows};
          const std::string which = fmt::format("{} ranks, sequence {}, decomposed {}, lopsided {}: ", ranks,
                                                sequence_parallel, decomposed, !cut.offsets.empty());
          const auto same = [&](const Values& a, const Values& b, const char* what) {
            require(worst(a, b) < 1e-12, which + what);
          };
          same(mine.out, rows(whole.out, own.first, own.last, mlp.width), "out");
          same(mine.dx, rows(whole.dx, own.first, own.last, mlp.width), "dx");
          same(mine.up, rows(whole.up, part.first, part.last, mlp.width), "up");
          same(mine.up_bias, rows(whole.up_bias, part.first, part.last, 1), "up bias");
          same(mine.down, columns(whole.down, part, mlp.hidden), "down");
          same(mine.down_bias, whole.down_bias, "down bias");
        }
      }
    });
  }
}

/// Several weights side by side, as queries, keys and values: one exchange of rows, one of sums.
TEST(Linear, MultipliesByPartsOfItsOutputs) {
  on_threads(3, only("inproc"), [](World& world) {
    const Mlp m{7, 4, 9};
    test::NaiveBlas blas;
    for (const bool decomposed : {false, true}) {
      ColumnLinear<double> layer(world.communicator(), "tp", blas,
                                 {"qkv", m.rows, m.width, m.hidden, {}, true, {}, decomposed});
      const Rows own = rows_of({}, world.rank(), 3, m.rows), mine = rows_of({}, world.rank(), 3, m.hidden);
      const Values x = rows(m.x, own.first, own.last, m.width), weight = rows(m.up, mine.first, mine.last, m.width),
                   bias = rows(m.up_bias, mine.first, mine.last, 1);
      Values whole(m.x.size()), at_once(static_cast<std::size_t>(m.rows * 3)), by_parts(at_once.size());
      layer.forward(x.data(), weight.data(), bias.data(), whole.data(), at_once.data());
      const std::vector<Rows> parts{{0, 1}, {1, 3}};
      layer.gather(x.data(), whole.data(), [&](const double* all, const Rows& some) {
        for (const Rows& p : parts)
          layer.multiply(all, weight.data() + p.first * m.width, bias.data() + p.first, some, p, by_parts.data());
      });
      require(at_once == by_parts, "out");
      Values partial(static_cast<std::size_t>(layer.partial_rows() * m.width)), dx(x.size()), dx_by_parts(x.size());
      layer.input_gradient(at_once.data(), weight.data(), partial.data(), dx.data()).get();
      const auto make = [&](const Rows& some, double* to) {
        for (const Rows& p : parts)
          layer.multiply_back(at_once.data(), weight.data() + p.first * m.width, some, p, p.first == 0 ? 0 : 1, to);
      };
      layer.sum(make, partial.data(), dx_by_parts.data()).get();
      require(worst(dx, dx_by_parts) < 1e-12, "dx");
      Values gradient(weight.size()), by_part(weight.size());
      layer.weight_gradient(whole.data(), at_once.data(), 0, gradient.data());
      for (const Rows& p : parts)
        layer.weight_gradient(whole.data(), at_once.data(), p, 0, by_part.data() + p.first * m.width);
      require(worst(gradient, by_part) < 1e-12, "weight");
    }
  });
}

/// One sum forward and one backward; sequence parallelism cuts each in two halves.
TEST(Linear, MovesTheSameBytes_WithSequenceParallelism) {
  on_threads(4, only("inproc"), [](World& world) {
    const Mlp mlp{8, 16, 32};
    std::size_t plain = 0, sequence = 0;
    static_cast<void>(by_layers(world, mlp, false, {}, &plain));
    static_cast<void>(by_layers(world, mlp, true, {}, &sequence));
    const std::size_t sum = 2 * (8 * 16 * sizeof(double)) * 3 / 4;  // an all_reduce of [rows, width]
    require(plain == 2 * sum && sequence == 2 * sum, fmt::format("{} and {} bytes", plain, sequence));
  });
}

TEST(Linear, SaysWhatCannotBeCut) {
  on_threads(2, only("inproc"), [](World& world) {
    test::NaiveBlas blas;
    const auto made = [&](const LinearShape& shape) {
      return complaint([&] { ColumnLinear<float>(world.communicator(), "tp", blas, shape); });
    };
    const std::string offsets = made({"up", 4, 4, 8, Shard{0, {0, 4}}});
    require(offsets.find("'up weight'") != std::string::npos && offsets.find("tp") != std::string::npos &&
                offsets.find("expected 3 offsets") != std::string::npos,
            offsets);
    const std::string last = made({"up", 4, 4, 8, Shard{0, {0, 4, 7}}});
    require(last.find("expected 8 as the last offset") != std::string::npos, last);
    const std::string ring = complaint([&] { RingRows<float>(world.communicator(), Shard{0, {0, 4, 1000}}, 16, 2); });
    require(ring.find("'rows weight'") != std::string::npos && ring.find("expected 16") != std::string::npos, ring);
    const std::string rows = made({"up", 4, 4, 8, {}, true, Shard{0, {0, 5, 4}}});
    require(rows.find("'up input'") != std::string::npos, rows);
  });
}

}  // namespace
}  // namespace sinew::parallel
