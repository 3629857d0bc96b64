#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/scan/decays.hpp>
#include <sinew/parallel/scan/selective_scan.hpp>

namespace sinew::parallel {

template <class T>
SelectiveScan<T>::SelectiveScan(const ScanSizes& sizes, std::int64_t tokens) : sizes_(sizes), tokens_(tokens) {
  if (sizes.sequences < 1 || sizes.channels < 0 || sizes.states < 1 || tokens < 0)
    throw Error(Code::InvalidArgument,
                fmt::format("selective scan: {} sequences of {} tokens, {} channels with {} states: expected 1 or more "
                            "sequences and states, 0 or more tokens and channels",
                            sizes.sequences, tokens, sizes.channels, sizes.states));
  const auto block = static_cast<std::size_t>(std::min(kBlock, sizes.channels) * sizes.states);
  now_.resize(block);
  next_.resize(block);
  slopes_.resize(block);
  starts_.resize(static_cast<std::size_t>((tokens + kChunk - 1) / kChunk) * block);
  inside_.resize(static_cast<std::size_t>(kChunk + 1) * block);
  decays_.resize(static_cast<std::size_t>(kChunk) * block);
}

template <class T>
std::int64_t SelectiveScan<T>::room_for(const ScanSizes& sizes, std::int64_t tokens) noexcept {
  const std::int64_t block = std::min(kBlock, sizes.channels) * sizes.states;
  return (3 + (tokens + kChunk - 1) / kChunk + kChunk + 1 + kChunk) * block;
}

template <class T>
template <class F>
void SelectiveScan<T>::for_each_block(const F& f) const {
  for (std::int64_t s = 0; s < sizes_.sequences; ++s) {
    for (std::int64_t d = 0; d < sizes_.channels; d += kBlock)
      f(s, s * tokens_, Rows{d, std::min(d + kBlock, sizes_.channels)});
  }
}

template <class T>
void SelectiveScan<T>::load(const T* of, std::int64_t sequence, const Rows& channels, T* to) const {
  if (of == nullptr) {
    std::fill_n(to, block_elements(channels), T{0});
  } else {
    std::copy_n(of + (sequence * sizes_.channels + channels.first) * sizes_.states, block_elements(channels), to);
  }
}

template <class T>
void SelectiveScan<T>::store(const T* from, std::int64_t sequence, const Rows& channels, T* to) const {
  if (to == nullptr) return;
  std::copy_n(from, block_elements(channels), to + (sequence * sizes_.channels + channels.first) * sizes_.states);
}

template <class T>
void SelectiveScan<T>::sum_dt(const ScanInputs<T>& in, const Rows& run, T* to) const {
  std::fill_n(to, sizes_.sequences * sizes_.channels, T{0});
  for (std::int64_t s = 0; s < sizes_.sequences; ++s, to += sizes_.channels) {
    for (std::int64_t t = run.first; t < run.last; ++t) {
      const T* dt = in.dt + (s * tokens_ + t) * sizes_.channels;
      for (std::int64_t d = 0; d < sizes_.channels; ++d) to[d] += dt[d];
    }
  }
}

template <class T>
void SelectiveScan<T>::find_decays(const ScanInputs<T>& in, std::int64_t token, const Rows& channels, T* to) const {
  decays(in.dt + token * sizes_.channels + channels.first, in.a + channels.first * sizes_.states, channels.count(),
         sizes_.states, to);
}

template <class T>
void SelectiveScan<T>::step(const ScanInputs<T>& in, std::int64_t token, const Rows& channels, const T* decay,
                            const T* h, T* to) const {
  const T *x = in.x + token * sizes_.channels, *dt = in.dt + token * sizes_.channels;
  const T* b = in.b + token * sizes_.states;
  for (std::int64_t d = channels.first; d < channels.last; ++d) {
    const T flow = dt[d] * x[d];
    for (std::int64_t n = 0; n < sizes_.states; ++n) to[n] = decay[n] * h[n] + flow * b[n];
    decay += sizes_.states, h += sizes_.states, to += sizes_.states;
  }
}

template <class T>
void SelectiveScan<T>::advance(const ScanInputs<T>& in, std::int64_t token, const Rows& channels) {
  find_decays(in, token, channels, decays_.data());
  step(in, token, channels, decays_.data(), now_.data(), next_.data());
  std::swap(now_, next_);
}

template <class T>
void SelectiveScan<T>::retreat(const ScanInputs<T>& in, std::int64_t token, const Rows& channels, const T* dy) {
  find_decays(in, token, channels, decays_.data());
  const T *decay = decays_.data(), *c = in.c + token * sizes_.states;
  T* g = now_.data();
  for (std::int64_t d = channels.first; d < channels.last; ++d, g += sizes_.states, decay += sizes_.states) {
    const T slope = dy[token * sizes_.channels + d];
    for (std::int64_t n = 0; n < sizes_.states; ++n) g[n] = (g[n] + slope * c[n]) * decay[n];
  }
}

template <class T>
void SelectiveScan<T>::emit(const ScanInputs<T>& in, std::int64_t token, const Rows& channels, const T* h, T* y) const {
  const T* x = in.x + token * sizes_.channels;
  const T* c = in.c + token * sizes_.states;
  y += token * sizes_.channels;
  for (std::int64_t d = channels.first; d < channels.last; ++d, h += sizes_.states) {
    T sum = in.skip[d] * x[d];
    for (std::int64_t n = 0; n < sizes_.states; ++n) sum += c[n] * h[n];
    y[d] = sum;
  }
}

template <class T>
void SelectiveScan<T>::forward(const ScanInputs<T>& in, const Rows& run, const T* before, T* y, T* after) {
  for_each_block([&](std::int64_t s, std::int64_t first, const Rows& channels) {
    load(before, s, channels, now_.data());
    for (std::int64_t t = first + run.first; t < first + run.last; ++t) {
      advance(in, t, channels);
      emit(in, t, channels, now_.data(), y);
    }
    store(now_.data(), s, channels, after);
  });
}

template <class T>
void SelectiveScan<T>::summary(const ScanInputs<T>& in, const Rows& run, T* dt_sum, T* after) {
  sum_dt(in, run, dt_sum);
  for_each_block([&](std::int64_t s, std::int64_t first, const Rows& channels) {
    load(nullptr, s, channels, now_.data());
    for (std::int64_t t = first + run.first; t < first + run.last; ++t) advance(in, t, channels);
    store(now_.data(), s, channels, after);
  });
}

template <class T>
void SelectiveScan<T>::gradient_summary(const ScanInputs<T>& in, const Rows& run, const T* dy, T* dt_sum, T* dbefore) {
  sum_dt(in, run, dt_sum);
  for_each_block([&](std::int64_t s, std::int64_t first, const Rows& channels) {
    load(nullptr, s, channels, now_.data());
    for (std::int64_t t = first + run.last - 1; t >= first + run.first; --t) retreat(in, t, channels, dy);
    store(now_.data(), s, channels, dbefore);
  });
}

template <class T>
void SelectiveScan<T>::find_starts(const ScanInputs<T>& in, std::int64_t first, std::int64_t count,
                                   const Rows& channels) {
  const std::int64_t block = block_elements(channels);
  for (std::int64_t t = 0; t < count; ++t) {
    if (t % kChunk == 0) std::copy_n(now_.data(), block, starts_.data() + t / kChunk * block);
    if (t >= (count - 1) / kChunk * kChunk) return;  // the last chunk is made at once where it is needed
    advance(in, first + t, channels);
  }
}

template <class T>
void SelectiveScan<T>::step_back(const ScanInputs<T>& in, std::int64_t token, std::int64_t in_chunk,
                                 const Rows& channels, const T* dy, const ScanGradients<T>& to) {
  const std::int64_t states = sizes_.states, row = token * sizes_.channels;
  const T *b = in.b + token * states, *c = in.c + token * states;
  T *db = to.b + token * states, *dc = to.c + token * states;
  const T* before = inside_.data() + in_chunk * block_elements(channels);
  const T* h = before + block_elements(channels);
  const T* decay = decays_.data() + in_chunk * block_elements(channels);
  T *coming = now_.data(), *g = slopes_.data(), *of_exponent = next_.data();
  for (std::int64_t d = channels.first; d < channels.last; ++d) {
    const T x = in.x[row + d], dt = in.dt[row + d], slope = dy[row + d], flow = dt * x;
    const T* a = in.a + d * states;
    T* da = to.a + d * states;
    // Loops apart, so that each looks at few arrays: those a compiler makes into vectors.
    for (std::int64_t n = 0; n < states; ++n) g[n] = coming[n] + slope * c[n];
    for (std::int64_t n = 0; n < states; ++n) {
      dc[n] += slope * h[n];
      db[n] += flow * g[n];
    }
    for (std::int64_t n = 0; n < states; ++n) coming[n] = g[n] * decay[n];
    for (std::int64_t n = 0; n < states; ++n) of_exponent[n] = coming[n] * before[n];
    for (std::int64_t n = 0; n < states; ++n) da[n] += of_exponent[n] * dt;
    T of_flow{0}, of_dt{0};
    for (std::int64_t n = 0; n < states; ++n) of_flow += g[n] * b[n];
    for (std::int64_t n = 0; n < states; ++n) of_dt += of_exponent[n] * a[n];
    to.x[row + d] = slope * in.skip[d] + dt * of_flow;
    to.dt[row + d] = x * of_flow + of_dt;
    to.skip[d] += slope * x;
    before += states, h += states, decay += states, coming += states;
  }
}

template <class T>
void SelectiveScan<T>::backward(const ScanInputs<T>& in, const Rows& run, const T* before, const T* dy, const T* dafter,
                                const ScanGradients<T>& to, T* dbefore) {
  for (std::int64_t s = 0; s < sizes_.sequences; ++s) {
    const std::int64_t at = (s * tokens_ + run.first) * sizes_.states;
    std::fill_n(to.b + at, run.count() * sizes_.states, T{0});
    std::fill_n(to.c + at, run.count() * sizes_.states, T{0});
  }
  for_each_block([&](std::int64_t s, std::int64_t of, const Rows& channels) {
    const std::int64_t block = block_elements(channels), first = of + run.first;
    load(before, s, channels, now_.data());
    find_starts(in, first, run.count(), channels);
    load(dafter, s, channels, now_.data());
    for (std::int64_t chunk = (run.count() + kChunk - 1) / kChunk - 1; chunk >= 0; --chunk) {
      const std::int64_t begin = first + chunk * kChunk, count = std::min(kChunk, first + run.count() - begin);
      std::copy_n(starts_.data() + chunk * block, block, inside_.data());
      for (std::int64_t t = 0; t < count; ++t) {
        T* h = inside_.data() + t * block;
        find_decays(in, begin + t, channels, decays_.data() + t * block);
        step(in, begin + t, channels, decays_.data() + t * block, h, h + block);
      }
      for (std::int64_t t = count - 1; t >= 0; --t) step_back(in, begin + t, t, channels, dy, to);
    }
    store(now_.data(), s, channels, dbefore);
  });
}

template class SelectiveScan<float>;
template class SelectiveScan<double>;

}  // namespace sinew::parallel
