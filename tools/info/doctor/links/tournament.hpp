#pragma once

namespace sinew::doctor {

/// The number of rounds in which every two of `players` meet once and nobody plays twice in a round.
int tournament_rounds(int players) noexcept;

/// The player whom `player` meets in a round; -1: nobody.
/// Source: the circle method of round-robin tournaments (Kirkman): one player stays, the others turn.
int tournament_partner(int round, int player, int players) noexcept;

}  // namespace sinew::doctor
