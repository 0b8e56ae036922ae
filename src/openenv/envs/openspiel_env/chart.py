"""The textbook chart of blackjack: when to hit."""

TEN_RANKS = ("10", "J", "Q", "K")


def chart_hits(total: int, soft: bool, dealer_rank: str) -> bool:
    """Whether the chart hits (one card at a time, dealer stands on every 17). dealer_rank: A, 2 ... 10, J, Q or K.

    Soft hands hit up to 17, and at 18 against 9, 10 or an ace; hard hands hit up to 11, stand from 17, and between
    stand only against 2-6 (at 12 only against 4-6).
    """
    dealer = 11 if dealer_rank == "A" else 10 if dealer_rank in TEN_RANKS else int(dealer_rank)
    if soft:
        return total <= 17 or (total == 18 and dealer >= 9)
    if total <= 11:
        return True
    if total == 12:
        return not 4 <= dealer <= 6
    return total <= 16 and dealer >= 7
