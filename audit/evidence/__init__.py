"""From runs to evidence: bets on what a claim allows, the wealth that they come to, exact limits of counts."""
