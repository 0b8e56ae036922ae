"""The textbook chart of blackjack (basic strategy): when to hit. It needs no OpenSpiel and no numpy."""

TEN_RANKS = ("10", "J", "Q", "K")


def chart_hits(total: int, soft: bool, dealer_rank: str) -> bool:
    """Whether the chart hits where the dealer stands on every 17. dealer_rank: A, 2 ... 10, J, Q or K.

    Soft hands hit up to 17, and at 18 against 9, 10 or an ace. Hard hands hit up to 11 and stand from 17. From 13 to 16
    they stand against 2 to 6, and at 12 against 4 to 6.
    """
    dealer = 11 if dealer_rank == "A" else 10 if dealer_rank in TEN_RANKS else int(dealer_rank)
    if soft:
        return total <= 17 or (total == 18 and dealer >= 9)
    if total <= 11:
        return True
    if total == 12:
        return not 4 <= dealer <= 6
    return total <= 16 and dealer >= 7
