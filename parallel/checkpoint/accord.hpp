#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <sinew/parallel/common/call_group.hpp>

namespace sinew::parallel {

/// Runs `f` on every rank, and goes on on all of them or on none.
/// Errors: on all ranks alike what the lowest rank's `f` ended with, code and text, behind `what` and that rank and its
///         host; Error::rank() is that rank. Any other exception becomes an Error of code System.
/// Cost:   an all_reduce of 4 bytes.
void on_all_or_none(CallGroup all, std::string_view what, const std::function<void()>& f);

/// The root's, on all ranks.
std::string text_of_root(CallGroup all, std::string text, int root);

}  // namespace sinew::parallel
