#include <array>
#include <cstdint>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/host_name.hpp>
#include <sinew/parallel/checkpoint/accord.hpp>

namespace sinew::parallel {

void on_all_or_none(Communicator& all, std::string_view what, const std::function<void()>& f) {
  Status mine;
  try {
    f();
  } catch (const std::exception& e) {
    mine = status_of(e);
  }
  std::array<std::int32_t, 1> first{mine.ok() ? all.size() : all.rank()};
  all.all_reduce(first, ReduceOp::Min).get();
  const int rank = first[0];
  if (rank == all.size()) return;
  std::array<std::int32_t, 1> code{static_cast<std::int32_t>(mine.code())};
  all.broadcast(code, rank).get();
  std::string text;
  if (rank == all.rank()) text = fmt::format("{}: rank {} on {}: {}", what, rank, host_name(), mine.message());
  throw Error(static_cast<Code>(code[0]), text_of_root(all, std::move(text), rank), rank);
}

std::string text_of_root(Communicator& all, std::string text, int root) {
  std::array<std::uint64_t, 1> length{text.size()};
  all.broadcast(length, root).get();
  text.resize(length[0]);
  if (length[0] > 0) all.broadcast(text, root).get();
  return text;
}

}  // namespace sinew::parallel
