#pragma once

namespace sinew::doctor {

/// Rounds in which every two of `players` meet once and nobody plays twice in one.
int tournament_rounds(int players) noexcept;

/// Whom `player` meets in a round; -1: nobody.
/// Source: the circle method of round-robin tournaments (Kirkman): one stays, the others turn.
int tournament_partner(int round, int player, int players) noexcept;

}  // namespace sinew::doctor
