#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include <sinew/parallel/scan/head_scan.hpp>

#include "whole_scan.hpp"

namespace sinew::parallel::test {

/// The scan by heads by its definition, of whole sequences: plain loops that keep every state.
struct WholeHeadScan {
  HeadScanSizes n;
  std::int64_t length;
  Values x, dt, b, c, a, skip, dy;
  Values y{}, dx{}, ddt{}, db{}, dc{}, da{}, dskip{};

  WholeHeadScan(const HeadScanSizes& sizes, std::int64_t of)
      : n(sizes),
        length(of),
        x(wave(tokens() * n.width(), 1)),
        dt(wave(tokens() * n.heads, 2, 0.3, 0.2)),
        b(wave(tokens() * n.group_states(), 3)),
        c(wave(tokens() * n.group_states(), 4)),
        a(wave(n.heads, 5, -0.5, 0.55)),  // some of them above 0
        skip(wave(n.heads, 6)),
        dy(wave(tokens() * n.width(), 7)) {
    run();
  }

  std::int64_t tokens() const noexcept { return n.sequences * length; }
  double loss() const {
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
    return sum;
  }

  void run() {
    y.assign(x.size(), 0), dx = y;
    ddt.assign(dt.size(), 0);
    db.assign(b.size(), 0), dc = db;
    da.assign(a.size(), 0), dskip = da;
    for (std::int64_t s = 0; s < n.sequences; ++s) {
      for (std::int64_t h = 0; h < n.heads; ++h) {
        for (std::int64_t p = 0; p < n.head_width; ++p) {
          for (std::int64_t k = 0; k < n.states; ++k) run(s * length, h, p, k);
          for (std::int64_t t = s * length; t < (s + 1) * length; ++t) {
            const std::int64_t i = t * n.width() + h * n.head_width + p;
            at(y, i) += at(skip, h) * at(x, i);
            at(dx, i) += at(skip, h) * at(dy, i);
            at(dskip, h) += at(x, i) * at(dy, i);
          }
        }
      }
    }
  }

 private:
  /// One state of one element of a head, in one sequence.
  void run(std::int64_t first, std::int64_t head, std::int64_t p, std::int64_t k) {
    const std::int64_t group = (n.heads_before + head) / n.heads_each;
    const auto of_x = [&](std::int64_t t) { return (first + t) * n.width() + head * n.head_width + p; };
    const auto of_dt = [&](std::int64_t t) { return (first + t) * n.heads + head; };
    const auto of_b = [&](std::int64_t t) { return ((first + t) * n.groups + group) * n.states + k; };
    Values s(static_cast<std::size_t>(length + 1));
    for (std::int64_t t = 0; t < length; ++t) {
      const double step = at(dt, of_dt(t));
      at(s, t + 1) = std::exp(step * at(a, head)) * at(s, t) + step * at(b, of_b(t)) * at(x, of_x(t));
      at(y, of_x(t)) += at(c, of_b(t)) * at(s, t + 1);
    }
    double slope = 0;  // of the loss by s[t + 1]
    for (std::int64_t t = length - 1; t >= 0; --t) {
      const double step = at(dt, of_dt(t)), decay = std::exp(step * at(a, head)), in = at(x, of_x(t));
      slope += at(dy, of_x(t)) * at(c, of_b(t));
      at(dc, of_b(t)) += at(dy, of_x(t)) * at(s, t + 1);
      at(db, of_b(t)) += slope * step * in;
      at(dx, of_x(t)) += slope * step * at(b, of_b(t));
      at(ddt, of_dt(t)) += slope * (at(b, of_b(t)) * in + at(a, head) * decay * at(s, t));
      at(da, head) += slope * step * decay * at(s, t);
      slope *= decay;
    }
  }
};

/// The outputs and gradients of a scan by heads for some of the tokens.
struct HeadScanPart {
  Values y, dx, ddt, db, dc, da, dskip;

  /// The largest difference of all arrays.
  double distance(const HeadScanPart& from) const {
    return std::max({worst(y, from.y), worst(dx, from.dx), worst(ddt, from.ddt), worst(db, from.db), worst(dc, from.dc),
                     worst(da, from.da), worst(dskip, from.dskip)});
  }
};

/// The inputs of some tokens, and room for their gradients.
struct PartOfHeadScan {
  Values x, dt, b, c, dy;
  HeadScanInputs<double> in;
  HeadScanPart out;
  HeadScanGradients<double> to;

  PartOfHeadScan(const WholeHeadScan& w, const std::vector<std::int64_t>& positions)
      : x(of(w, w.x, positions, w.n.width())),
        dt(of(w, w.dt, positions, w.n.heads)),
        b(of(w, w.b, positions, w.n.group_states())),
        c(of(w, w.c, positions, w.n.group_states())),
        dy(of(w, w.dy, positions, w.n.width())),
        in{x.data(), dt.data(), b.data(), c.data(), w.a.data(), w.skip.data()},
        out{Values(x.size(), 9), Values(x.size(), 9), Values(dt.size(), 9), Values(b.size(), 9),
            Values(b.size(), 9), Values(w.a.size()),  Values(w.skip.size())},
        to{out.dx.data(), out.ddt.data(), out.db.data(), out.dc.data(), out.da.data(), out.dskip.data()} {}
  PartOfHeadScan(const PartOfHeadScan&) = delete;
  PartOfHeadScan& operator=(const PartOfHeadScan&) = delete;

  static Values of(const WholeHeadScan& w, const Values& v, const std::vector<std::int64_t>& positions,
                   std::int64_t width) {
    return picked(v, w.n.sequences, w.length, positions, width);
  }
  /// The outputs and gradients by the definition for these tokens. The gradients of a and skip are those of all tokens.
  static HeadScanPart expected(const WholeHeadScan& w, const std::vector<std::int64_t>& positions) {
    const auto some = [&](const Values& v, std::int64_t width) { return of(w, v, positions, width); };
    return {some(w.y, w.n.width()),
            some(w.dx, w.n.width()),
            some(w.ddt, w.n.heads),
            some(w.db, w.n.group_states()),
            some(w.dc, w.n.group_states()),
            w.da,
            w.dskip};
  }
};

}  // namespace sinew::parallel::test
