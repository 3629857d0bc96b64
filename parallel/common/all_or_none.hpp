#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <sinew/parallel/common/call_group.hpp>

namespace sinew::parallel {

/// Runs `f` on every rank. Returns on all ranks, or throws on all of them.
/// Errors: all ranks throw the error of the lowest rank whose `f` threw, with its code. The text is `what`, that rank,
///         its host, and the text of the error. Error::rank() is that rank. Any other exception becomes an Error with
///         code System.
/// Cost:   an all_reduce of 4 bytes.
void on_all_or_none(CallGroup all, std::string_view what, const std::function<void()>& f);

/// Returns the text of the root on all ranks.
std::string text_of_root(CallGroup all, std::string text, int root);

}  // namespace sinew::parallel
