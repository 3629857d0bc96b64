#include <array>
#include <cstdint>

#include <fmt/format.h>

#include <sinew/core/base/thrown.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/system/host_name.hpp>
#include <sinew/parallel/common/all_or_none.hpp>

namespace sinew::parallel {

void on_all_or_none(CallGroup all, std::string_view what, const std::function<void()>& f) {
  Status mine;
  try {
    f();
  } catch (...) {
    mine = status_of_current_exception();
  }
  const std::string label(what);
  const CallOptions options = all.options(label.c_str());
  std::array<std::int32_t, 1> first{mine.ok() ? all->size() : all->rank()};
  all->all_reduce(first, ReduceOp::Min, options).get();
  const int rank = first[0];
  if (rank == all->size()) return;
  std::array<std::int32_t, 1> code{static_cast<std::int32_t>(mine.code())};
  all->broadcast(code, rank, options).get();
  std::string text;
  if (rank == all->rank())
    text = fmt::format("{}: {} on {}: {}", what, all->rank_text(rank), host_name(), mine.message());
  throw Error(static_cast<Code>(code[0]), text_of_root(all, std::move(text), rank), rank);
}

std::string text_of_root(CallGroup all, std::string text, int root) {
  std::array<std::uint64_t, 1> length{text.size()};
  const CallOptions options = all.options("a text that all ranks get");
  all->broadcast(length, root, options).get();
  text.resize(length[0]);
  if (length[0] > 0) all->broadcast(text, root, options).get();
  return text;
}

}  // namespace sinew::parallel
