#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <sinew/parallel/scan/scan_data.hpp>

namespace sinew::parallel::test {

using Values = std::vector<double>;

inline Values wave(std::int64_t count, int seed, double middle = 0, double height = 1) {
  Values all(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = middle + height * std::sin(0.7 * static_cast<double>(i) + seed);
  return all;
}
inline double& at(Values& v, std::int64_t i) { return v[static_cast<std::size_t>(i)]; }
inline double at(const Values& v, std::int64_t i) { return v[static_cast<std::size_t>(i)]; }

/// The selective scan by its definition, of whole sequences: plain loops that keep every state.
struct WholeScan {
  ScanSizes n;
  std::int64_t length;
  Values x, dt, b, c, a, skip, dy;
  Values y{}, dx{}, ddt{}, db{}, dc{}, da{}, dskip{};

  WholeScan(const ScanSizes& sizes, std::int64_t of)
      : n(sizes),
        length(of),
        x(wave(tokens() * n.channels, 1)),
        dt(wave(tokens() * n.channels, 2, 0.3, 0.2)),
        b(wave(tokens() * n.states, 3)),
        c(wave(tokens() * n.states, 4)),
        a(wave(n.channels * n.states, 5, -0.5, 0.55)),  // some of them above 0
        skip(wave(n.channels, 6)),
        dy(wave(tokens() * n.channels, 7)) {
    run();
  }

  std::int64_t tokens() const noexcept { return n.sequences * length; }
  double loss() const {
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
    return sum;
  }

  void run() {
    y.assign(x.size(), 0), dx = y, ddt = y;
    db.assign(b.size(), 0), dc = db;
    da.assign(a.size(), 0), dskip.assign(skip.size(), 0);
    for (std::int64_t s = 0; s < n.sequences; ++s) {
      for (std::int64_t d = 0; d < n.channels; ++d) {
        for (std::int64_t k = 0; k < n.states; ++k) run(s * length, d, k);
        for (std::int64_t t = s * length; t < (s + 1) * length; ++t) {
          const std::int64_t i = t * n.channels + d;
          at(y, i) += at(skip, d) * at(x, i);
          at(dx, i) += at(skip, d) * at(dy, i);
          at(dskip, d) += at(x, i) * at(dy, i);
        }
      }
    }
  }

 private:
  /// One channel and state of one sequence.
  void run(std::int64_t first, std::int64_t d, std::int64_t k) {
    const std::int64_t of_a = d * n.states + k;
    Values h(static_cast<std::size_t>(length + 1));
    for (std::int64_t t = 0; t < length; ++t) {
      const std::int64_t i = (first + t) * n.channels + d, j = (first + t) * n.states + k;
      at(h, t + 1) = std::exp(at(dt, i) * at(a, of_a)) * at(h, t) + at(dt, i) * at(b, j) * at(x, i);
      at(y, i) += at(c, j) * at(h, t + 1);
    }
    double slope = 0;  // of the loss by h[t + 1]
    for (std::int64_t t = length - 1; t >= 0; --t) {
      const std::int64_t i = (first + t) * n.channels + d, j = (first + t) * n.states + k;
      const double decay = std::exp(at(dt, i) * at(a, of_a));
      slope += at(dy, i) * at(c, j);
      at(dc, j) += at(dy, i) * at(h, t + 1);
      at(db, j) += slope * at(dt, i) * at(x, i);
      at(dx, i) += slope * at(dt, i) * at(b, j);
      at(ddt, i) += slope * (at(b, j) * at(x, i) + at(a, of_a) * decay * at(h, t));
      at(da, of_a) += slope * at(dt, i) * decay * at(h, t);
      slope *= decay;
    }
  }
};

/// Tokens at these positions of every sequence.
inline Values picked(const Values& of, std::int64_t sequences, std::int64_t length,
                     const std::vector<std::int64_t>& positions, std::int64_t width) {
  Values some;
  for (std::int64_t s = 0; s < sequences; ++s) {
    for (const std::int64_t p : positions)
      some.insert(some.end(), of.begin() + (s * length + p) * width, of.begin() + (s * length + p + 1) * width);
  }
  return some;
}

/// Relative where the values are above 1. What is no number on one side only is far off.
inline double worst(const Values& a, const Values& b) {
  if (a.size() != b.size()) return 1e300;
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double off = std::abs(a[i] - b[i]) / (1 + std::abs(b[i]));
    most = std::isnan(off) ? 1e300 : std::max(most, off);
  }
  return most;
}

/// What a scan makes of a part of the tokens.
struct ScanPart {
  Values y, dx, ddt, db, dc, da, dskip;
};

/// The inputs of some tokens, and room for their gradients.
struct PartOfScan {
  Values x, dt, b, c, dy;
  ScanInputs<double> in;
  ScanPart out;
  ScanGradients<double> to;

  PartOfScan(const WholeScan& w, const std::vector<std::int64_t>& positions)
      : x(of(w, w.x, positions, w.n.channels)),
        dt(of(w, w.dt, positions, w.n.channels)),
        b(of(w, w.b, positions, w.n.states)),
        c(of(w, w.c, positions, w.n.states)),
        dy(of(w, w.dy, positions, w.n.channels)),
        in{x.data(), dt.data(), b.data(), c.data(), w.a.data(), w.skip.data()},
        out{Values(x.size(), 9), Values(x.size(), 9), Values(x.size(), 9),  Values(b.size(), 9),
            Values(b.size(), 9), Values(w.a.size()),  Values(w.skip.size())},
        to{out.dx.data(), out.ddt.data(), out.db.data(), out.dc.data(), out.da.data(), out.dskip.data()} {}
  PartOfScan(const PartOfScan&) = delete;
  PartOfScan& operator=(const PartOfScan&) = delete;

  static Values of(const WholeScan& w, const Values& v, const std::vector<std::int64_t>& positions,
                   std::int64_t width) {
    return picked(v, w.n.sequences, w.length, positions, width);
  }
};

}  // namespace sinew::parallel::test
