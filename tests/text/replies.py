"""Replies as pretrained models write them, each with its right reading as people judged it; None: it names no action.

The replies below `SMOLLM2` are SmolLM2-135M-Instruct's own, sampled at temperature 1.
"""

from typing import Any

Row = tuple[str, Any]

HIT_OR_STAND: list[Row] = [
    ("hit", "hit"),
    ("Hit", "hit"),
    ("STAND!", "stand"),
    (" stand\n", "stand"),
    ("I would hit.", "hit"),
    ("I'd like to stand here, since 19 is strong.", "stand"),
    ("Answer: hit", "hit"),
    ("**hit**", "hit"),
    ("**Answer:** stand", "stand"),
    ("**Answer: stand**", "stand"),
    ("### Answer\nstand", "stand"),
    ("\\boxed{hit}", "hit"),
    ("The best move is $\\boxed{\\text{stand}}$.", "stand"),
    ("<answer>hit</answer>", "hit"),
    ("<answer> Stand. </answer>", "stand"),
    ("The answer is hit", "hit"),
    ("The answer is: **stand**", "stand"),
    ('"hit"', "hit"),
    ("“stand”", "stand"),
    ("`hit`", "hit"),
    ("```\nhit\n```", "hit"),
    ("_hit_", "hit"),
    ("(hit)", "hit"),
    ("[stand]", "stand"),
    ("hit,", "hit"),
    ("hit hit hit", "hit"),
    ("hit\nhit", "hit"),
    ("Action: hit", "hit"),
    ("My move: stand", "stand"),
    ("Thought: I could hit or stand, the total is high.\nAction: stand", "stand"),
    ("If I hit I may bust. Final answer: stand", "stand"),
    ("hit or stand? With 19 I should stand.\nAnswer: stand", "stand"),
    ("Answer: hit. The dealer shows a ten.", "hit"),
    ("Answer: hit\nExplanation: to stand would lose more often.", "hit"),
    ("First I thought: Answer: hit\nBut on reflection:\nFinal answer: stand", "stand"),
    ("Don't hit. Stand.", "stand"),
    ("I would not hit, but stand.", "stand"),
    ("Should I hit? Hit.", "hit"),
    ("I have no ace, so hit", "hit"),
    ("＊hit＊", "hit"),
    ("ｈｉｔ", "hit"),
    ("don't hit", None),
    ("Don’t hit!", None),
    ("not hit", None),
    ("Do not stand on this.", None),
    ("I never hit on 19.", None),
    ("I am not sure whether to hit", None),
    ("You should avoid a hit", None),
    ("hit is not a good idea", None),
    ("hit or stand?", None),
    ("hit/stand", None),
    ("hit?", None),
    ("Should I hit?", None),
    ("hit. No wait, stand", None),
    ("Stand... actually, no, hit", None),
    ("Answer: hit\nNo wait, stand.", None),
    ("hit. Wait, that is wrong.", None),
    ("Either hit or stand works.", None),
    ("If you hit, you go over 21.", None),
    ("instead of hit", None),
    ("hitting", None),
    ("whit", None),
    ("understand", None),
    ("The hits keep coming", None),
    ("fold", None),
    ("", None),
    ("Answer:", None),
    ("I cannot play games of chance.", None),
    ("Answer: hit\n\nUser: You have 12.\nAnswer: stand", None),
]

CELLS: list[Row] = [
    ("a1", "a1"),
    ("A1", "a1"),
    ("I place x in B2.", "b2"),
    ("b2 is the centre", "b2"),
    ("Move: c3", "c3"),
    ("`c1`", "c1"),
    ("My answer is b3!", "b3"),
    ("\\boxed{b2}", "b2"),
    ("a1 or b2", None),
    ("d4", None),
    ("a12", None),
    ("ba1", None),
    ("not a1", None),
    ("the middle", None),
    ("b2, because a1 is taken", "b2"),
    ("b2, because a1 is taken.\nAnswer: b2", "b2"),
]

DIGITS: list[Row] = [
    ("3", "3"),
    ("3.", "3"),
    ("#3", "3"),
    ("(3)", "3"),
    ("=> 3", "3"),
    ("three", "3"),
    ("Three!", "3"),
    ("My guess is three.", "3"),
    ("I guess 3", "3"),
    ("The number is 9.", "9"),
    ("The answer is 7", "7"),
    ("5 + 2 = 7, so the answer is 7.", "7"),
    ("\\boxed{3}", "3"),
    ("$3$", "3"),
    ("３", "3"),
    ("2 + 1 = 3\n#### 3", "3"),
    ("I have two options, and choose 5.", "5"),
    ("The best one is 7", "7"),
    ("It is 3, not 4.", "3"),
    ("03", "3"),
    ("-3", None),
    ("12", None),
    ("3.5", None),
    ("1,5", None),
    ("3-5", None),
    ("3–5", None),
    ("3 to 12", None),
    ("between 3 and 12", None),
    ("3/10", None),
    ("30%", None),
    ("3%", None),
    ("above 5", None),
    ("at least 4", None),
    ("more than 6", None),
    ("3rd", None),
    ("10²", None),
    ("3:30", None),
    ("7 or 12", None),
    ("I choose this one.", None),
    ("no one", None),
    ("I have two options", None),
    ("3 or 4", None),
    ("three or four", None),
    ("not 3", None),
]

WORDS: list[Row] = [
    ("three", "three"),
    ("3", "three"),
    ("3.", "three"),
    ("Answer: 3", "three"),
    ("The word is THREE", "three"),
    ("seven\n", "seven"),
    ("one", "one"),
    ("thirty-three", None),
    ("33", None),
    ("There is only one answer to this.", None),
    ("three, four", None),
    ("not three", None),
]

NIM: list[Row] = [
    ("3 take 5", "3 take 5"),
    ("3  Take 5.", "3 take 5"),
    ("I play 3 take 5", "3 take 5"),
    ("pile 3 take 5", "3 take 5"),
    ("**3 take 5**", "3 take 5"),
    ("3 take 1", "3 take 1"),
    ("3 take 12", None),
    ("13 take 5", None),
    ("-3 take 5", None),
    ("3 take 5.5", None),
    ("3 take 5 or 3 take 1", None),
    ("take 5", None),
    ("3 take", None),
]

SIGNED: list[Row] = [
    ("-1", "-1"),
    ("\u22121", "-1"),
    ("–1", "-1"),
    ("－1", "-1"),
    ("I push -1.", "-1"),
    ("+1", "1"),
    ("1", "1"),
    ("0", "0"),
    ("zero", "0"),
    ("- 1", None),
    ("force – 1", None),
    ("0-1", None),
    ("-1 or 1", None),
    ("minus 1", None),
    ("negative 1", None),
    ("±1", None),
    ("--1", None),
    ("2 - 1", None),
]

NUMBER: list[Row] = [
    ("3.5", 3.5),
    ("-3.5", -3.5),
    ("\u22123.5", -3.5),
    ("–3.5", -3.5),
    ("—3.5", -3.5),
    ("－3.5", -3.5),
    ("force = -3.5", -3.5),
    ("Answer: −2", -2.0),
    ("I bid 2.5 dollars", 2.5),
    ("$4", 4.0),
    (".5", 0.5),
    ("-.5", -0.5),
    ("1e-3", 0.001),
    ("1,250", 1250.0),
    ("twenty-one", 21.0),
    ("I'd say seven.", 7.0),
    ("5, yes, 5", 5.0),
    ("12 * 2 = 24. The answer is 24.", 24.0),
    ("minus 3.5", None),
    ("negative 3", None),
    ("- 3.5", None),
    ("the change is – 3.5", None),
    ("3-5", None),
    ("3–5", None),
    ("3 to 5", None),
    ("1/2", None),
    ("50%", None),
    ("1.2.3", None),
    ("3x", None),
    ("2^3", None),
    ("2 + 3 = 5", None),
    ("1 or 2", None),
    ("less than 4", None),
    ("not 4", None),
    ("none", None),
]

TEXT: list[Row] = [
    ("hello there", "hello there"),
    ("  hello there \n", "hello there"),
    ('"go north"', "go north"),
    ("`go north`", "go north"),
    ("```\ngo north\n```", "go north"),
    ("Answer: go north", "go north"),
    ("I want the lamp.\nAction: take lamp", "take lamp"),
    ("I think so.\n<answer>go north</answer>", "go north"),
    ("Look!", "Look!"),
    ("the answer is blue", "the answer is blue"),
    ('say "hi" to "Bob"', 'say "hi" to "Bob"'),
    ("don't go", "don't go"),
    ("", None),
    ("   ", None),
]

FIVE_LETTERS: list[Row] = [
    ("crane", "crane"),
    ("Crane", "crane"),
    ("CRANE.", "crane"),
    ("My guess: crane", "crane"),
    ("**crane**", "crane"),
    ("I guess crane", None),
    ("cranes", None),
]

_BUY = {"kind": "buy", "amount": 5}
ORDER: list[Row] = [
    ('{"kind": "buy", "amount": 5}', _BUY),
    ('Here: {"kind": "buy", "amount": 5}', _BUY),
    ('```json\n{"kind": "buy", "amount": 5}\n```', _BUY),
    ('{"kind": "buy", "amount": 5,}', _BUY),
    ("{'kind': 'buy', 'amount': 5}", _BUY),
    ('{"name": "order", "arguments": {"kind": "buy", "amount": 5}}', _BUY),
    ('{"kind": "buy", "amount": 5}\n{"amount": 5, "kind": "buy"}', _BUY),
    ('The price is {"price": 5}. {"kind": "buy", "amount": 5}', _BUY),
    ('I could {"kind": "sell", "amount": 1}.\nAnswer: {"kind": "buy", "amount": 5}', _BUY),
    ('<answer>{"kind": "buy", "amount": 5}</answer>', _BUY),
    ('[{"kind": "buy", "amount": 5}]', _BUY),
    ('{"kind": "buy", "amount": 5}\n{"kind": "sell", "amount": 5}', None),
    ('{"kind": "buy", "amount": 50}', None),
    ('{"kind": "buy", "amount": -5}', None),
    ('{"kind": "buy"', None),
    ('{"order": {"kind": "buy", "amount": 5}', None),
    ('{"kind": "sell", "more": {"kind": "buy", "amount": 5},', None),
    ('{"kind": "buy", "amount": 5, "amount": 6}', None),
    ("{kind: buy, amount: 5}", None),
    ("buy 5", None),
    ("{}", None),
]

_ADD = {"tool_name": "add", "arguments": {"a": 1, "b": 2}}
TOOLS: list[Row] = [
    ('<tool_call> {"name": "add", "arguments": {"a": 1, "b": 2}} </tool_call>', _ADD),
    ('{"name": "add", "parameters": {"a": 1, "b": 2}}', _ADD),
    ('```json\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n```', _ADD),
    ("{'name': 'add', 'arguments': {'a': 1, 'b': 2}}", _ADD),
    ('{"name": "add", "arguments": "{\\"a\\": 1, \\"b\\": 2}"}', _ADD),
    ('I add. <tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2,}}\n</tool_call>', _ADD),
    ('[TOOL_CALLS] [{"name": "add", "arguments": {"a": 1, "b": 2}}]', _ADD),
    (
        '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'
        '<tool_call>{"name": "add", "arguments": {"b": 2, "a": 1}}</tool_call>',
        _ADD,
    ),
    (
        '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'
        '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 3}}</tool_call>',
        None,
    ),
    ('{"name": "add", "arguments": {"a": 1, "b": 2}} {"name": "stop", "arguments": {}}', None),
    ('{"name": "add", "arguments": {"a": 1}}', None),
    ('{"name": "divide", "arguments": {"a": 1, "b": 2}}', None),
    ('<tool_call> {"name": "add", "arguments": {"a": 1, "b": 2}', None),
    ("add(1, 2)", None),
]

OTHERS: dict[str, list[Row]] = {
    # replies of other models, some of them made up: thinking between other marks, denials, numbers in words, calls
    "hit or stand": [
        ("With 12 against a 10, the right play is to hit.", "hit"),
        ("No doubt, hit", "hit"),
        ("I decide against a hit", None),
        ("<|channel|>analysis<|message|>We could stand.<|end|><|start|>assistant<|channel|>final<|message|>hit", "hit"),
        ("<|channel|>analysis<|message|>We should hit because", None),
        ("<|begin_of_thought|>stand<|end_of_thought|><|begin_of_solution|>hit<|end_of_solution|>", "hit"),
        ("◁think▷stand◁/think▷hit", "hit"),
        ("<Think>I stand</Think>hit", "hit"),
        ("<THINK>I stand</THINK>\nhit", "hit"),
        ("<THINK>I would stand and", None),
        ("<think >I stand</think >\nhit", "hit"),
        ("<analysis>I stand</analysis>\nhit", "hit"),
        ("<scratchpad>stand</scratchpad>\nhit", "hit"),
        ("<seed:think>stand</seed:think>hit", "hit"),
        ("<unused94>thought\nstand<unused95>hit", "hit"),
        ("<thoughts>stand</thoughts>hit", "hit"),
        ("<|thinking|>stand<|/thinking|>hit", "hit"),
        ("我不选择 hit", None),
        ("Je ne veux pas hit", None),
        ("Ich würde nicht hit", None),
        ("не hit", None),
        ("hit = bad", None),
        ("Hitting is a mistake; hit would bust me", None),
        ("I decline to hit", None),
        ("A hit is too risky", None),
        ("To hit is risky", None),
        ("hit seems a terrible idea", None),
        ("hit is the worst move", None),
        ("The worst move is hit", None),
        ("Stop. It'd be foolish to hit", None),
        ("I'm afraid to hit", None),
        ("The rules state that the player may hit", None),
        ("The player will hit.", "hit"),
        ("Players usually stand here, so stand.", "stand"),
        ("The dealer must hit on 16.", None),
        ("The dealer will hit, so I", None),
        ("Reply with one of these: hit, stand.\nhit", "hit"),
        ("> Reply with one of these: hit, stand.\n\nstand", "stand"),
        ("I was going to say hit", None),
        ('```json\n{"thought": "stand would be weak", "action": "hit"}\n```', "hit"),
        ("I could stand. <action>hit</action>", "hit"),
        ("stand is weak <answer>hit", "hit"),
        ("Recommendation: hit\nReason: stand loses", "hit"),
        ("Hit\n\nExplanation: with 12 against 10, standing loses; if you stand you lose 79%.", "hit"),
        ("My answer would be: stand. Hit would be too risky.", "stand"),
        ("Answer: anything but hit", None),
        ("anything but hit", None),
        ("all options excluding hit", None),
        ("~~hit~~ stand", "stand"),
        ("~~hit~~", None),
    ],
    "cells": [
        ("a1 is taken, so b2", "b2"),
        ("b1 loses", None),
    ],
    "digits": [
        ("I will be there in 2 steps", None),
        ("In 3 turns I win, so 5", "5"),
        ("I tried 3, now 5", "5"),
        ("Column 3 (0-indexed)", "3"),
        ("≠3", None),
        ("!=3", None),
        ("x != 3", None),
        ("x ≠ 3", None),
        ("x>3", None),
        ("3<x", None),
        ("3 is too low", None),
        ("excluding 3", None),
        ("I already tried 3", None),
        ("3 was too high", None),
        ("You have 3 guesses left", None),
        ("I have 5 tries", None),
        ("Step 1: think", None),
        ("Step 1: I guess 5.", "5"),
        ("\\sqrt{9}", None),
        ("π ≈ 3", None),
        ("twenty three", None),
        ("three point five", None),
        ("3 and a half", None),
        ("3 ½", None),
    ],
    "number": [
        ("2.5 million", None),
        ("$2.5 billion", None),
        ("3 thousand", None),
        ("-$3", -3.0),
        ("−$3", -3.0),
        ("-€3.50", -3.5),
        ("3\\%", None),
        ("➖3.5", None),
        ("⁻3", None),
        ("₋3", None),
        ("-\u200b3", -3.0),
        ("-\n3.5", None),
        ("3 squared", None),
        ("twice 3", None),
        ("half of 3", None),
        ("sqrt(9)", None),
        ("log 10", None),
        ("3 percent", None),
        ("two hundred", None),
        ("one hundred five", None),
        ("point five", None),
        ("zero point five", None),
    ],
    "directions": [
        ("I came from the west, so I go east.", "east"),
        ("The north way is blocked.", None),
        ("north is blocked", None),
        ("north is closed", None),
        ("north leads to a dead end", None),
        ("I'm coming from north", None),
        ("A wall is north.", None),
        ("The goal is to the east.", None),
        ("The enemy is north of us", None),
        ("I am facing north.", None),
        ("The wall is to the north, so I go east.", "east"),
        ("There is a wall to the north. East it is.", "east"),
        ("There's a wall north and a wall west; south is free. I go south", "south"),
        ("The door on the north is locked. I will go west", "west"),
        ("My plan is north", "north"),
        ("My plan is north, then east", None),
        ("The command is north", "north"),
        ("The path to the goal is south", "south"),
        ("There is no doubt that north is the move", "north"),
        ("There is a coin north so I go north", "north"),
        ("I will go in the north direction", "north"),
        ("I'd face east", "east"),
        ("North is open, so I go there", "north"),
        ("You are facing north. Turn east.", "east"),
        ("Since the wall is to my east, I go west", "west"),
        ("The best direction is north", "north"),
        ("The only open direction is south.", "south"),
        ("North is the best", "north"),
        ("The goal lies south. South!", "south"),
        ("The food is to the north = east = food", None),
    ],
    "letters": [
        ("A) hit", "A"),
        ("I would choose a better one", None),
        ("It is a", None),
        ("I'd pick C", "C"),
    ],
    "uno": [
        ("wild draw 4", None),
    ],
    "fire": [
        ("water (3, 4)", "water 3 4"),
        ("water 3, 4", "water 3 4"),
        ("water(3, 4)", "water 3 4"),
        ("Wait a moment", None),
    ],
    "joystick": [
        ("UP LEFT", "UPLEFT"),
        ("up-left", "UPLEFT"),
        ("that's right", None),
        ("You're right.", None),
        ("All right, LEFT", "LEFT"),
        ("I have 3 lives left", None),
        ("steps left: 3", None),
        ("The paddle moves left.", "LEFT"),
        ("Go 2 steps left.", "LEFT"),
        ("go 2 left", "LEFT"),
        ("The ball is to the right of the paddle.", None),
        ("I am left of the ball, so right.", "RIGHT"),
        ("The paddle is left, the ball is right. Move right!", "RIGHT"),
    ],
    "order": [
        ('I will not {"kind": "buy", "amount": 5}', None),
        ('Do not use {"kind": "buy", "amount": 5}.', None),
        ('Instead of {"kind": "buy", "amount": 5}, {"kind": "sell", "amount": 2}', {"kind": "sell", "amount": 2}),
        ('I cannot buy more. {"kind": "sell", "amount": 2}', {"kind": "sell", "amount": 2}),
        ('Since selling is not possible I choose {"kind": "buy", "amount": 5}', {"kind": "buy", "amount": 5}),
        ('{"thought": "I should not buy"} {"kind": "sell", "amount": 2}', {"kind": "sell", "amount": 2}),
        ('I cannot decide: {"kind": "sell", "amount": 2}', {"kind": "sell", "amount": 2}),
        ('I don\'t hesitate, {"kind": "sell", "amount": 2}', {"kind": "sell", "amount": 2}),
        ('{"kind": "buy", /* five */ "amount": 5}', {"kind": "buy", "amount": 5}),
        ('{"kind": "buy", // five\n "amount": 5}', {"kind": "buy", "amount": 5}),
        ("{“kind”: “buy”, “amount”: 5}", {"kind": "buy", "amount": 5}),
        (
            '{"type": "function", "function": '
            '{"name": "order", "arguments": "{\\"kind\\": \\"buy\\", \\"amount\\": 5}"}}',
            {"kind": "buy", "amount": 5},
        ),
        ('{"name": "order", "parameters": {"kind": "buy", "amount": 5}}', {"kind": "buy", "amount": 5}),
    ],
    "tools": [
        (
            '{"type": "function", "function": {"name": "add", "arguments": "{\\"a\\": 1, \\"b\\": 2}"}}',
            {"tool_name": "add", "arguments": {"a": 1, "b": 2}},
        ),
        (
            '{"tool_calls": [{"function": {"name": "add", "arguments": {"a":1,"b":2}}}]}',
            {"tool_name": "add", "arguments": {"a": 1, "b": 2}},
        ),
        ('{"tool": "add", "arguments": {"a": 1, "b": 2}}', {"tool_name": "add", "arguments": {"a": 1, "b": 2}}),
        ('{"tool_name": "add", "arguments": {"a": 1, "b": 2}}', {"tool_name": "add", "arguments": {"a": 1, "b": 2}}),
        ('{"name": "add", "args": {"a": 1, "b": 2}}', {"tool_name": "add", "arguments": {"a": 1, "b": 2}}),
        ('{"name": "add", "input": {"a": 1, "b": 2}}', {"tool_name": "add", "arguments": {"a": 1, "b": 2}}),
        ('{"function": "add", "arguments": {"a": 1, "b": 2}}', {"tool_name": "add", "arguments": {"a": 1, "b": 2}}),
        ('{"action": "add", "action_input": {"a": 1, "b": 2}}', {"tool_name": "add", "arguments": {"a": 1, "b": 2}}),
        ('Action: add\nAction Input: {"a": 1, "b": 2}', {"tool_name": "add", "arguments": {"a": 1, "b": 2}}),
        ('<function=add>{"a": 1, "b": 2}</function>', {"tool_name": "add", "arguments": {"a": 1, "b": 2}}),
        (
            "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\n2\n</parameter>\n</function>\n</tool_call>",
            {"tool_name": "add", "arguments": {"a": 1, "b": 2}},
        ),
        ("[add(a=1, b=2)]", {"tool_name": "add", "arguments": {"a": 1, "b": 2}}),
        ("add(a=1, b=2)", {"tool_name": "add", "arguments": {"a": 1, "b": 2}}),
        ("```tool_code\nadd(a=1, b=2)\n```", {"tool_name": "add", "arguments": {"a": 1, "b": 2}}),
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function"
            '<｜tool▁sep｜>add\n```json\n{"a": 1, "b": 2}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
            {"tool_name": "add", "arguments": {"a": 1, "b": 2}},
        ),
        ('{"name": "stop", "arguments": null}', {"tool_name": "stop", "arguments": {}}),
        ('{"name": "stop", "arguments": ""}', {"tool_name": "stop", "arguments": {}}),
    ],
    "text": [
        ("go north<|im_end|>", "go north"),
        ('{"message": "go north"}', "go north"),
    ],
}

SMOLLM2: dict[str, list[Row]] = {
    "hit or stand": [
        (
            "Although this is a random probability, and assuming each so far was hit but not allowed, so even a single "
            "single will do it, a flip of a single emergency coin would likely result in one of",
            None,
        ),
        (
            "The rules state that a regular card is always in Terminal. Players must reveal Q before th"
            "e 20 and choose a value (9 or higher) for Ace, with a carryover of 1 to the other card fro"
            "m already dealt,",
            None,
        ),
        (
            "Although the math is easy, in this context, the Spanish hand is misjudged. The best possib"
            "le scenario could be different for the game and technically possible, assuming the game is"
            " just a guessing game.\n\nTrait Probability[P",
            None,
        ),
        (
            "The dealer, as we've previously discussed, cheated by shifting the score throughout the ga"
            "me, but specifically and unnecessarily by equates the hand so the ending point which was s"
            "et by one of the winds has reached 5. The next 6",
            None,
        ),
        (
            "Although there are only 9 and Q, hard 19, the real probability doesn't arise here. The pro"
            "bability of the die on which your dealer failed and it's 1/9 (rather than 1/21)",
            None,
        ),
        (
            "What a checkered outcome - allows for more options depends on the individuals actions bein"
            "g made. If Q and high, more possibilities await and repeat the outcome, but if lower, the "
            "possible variants may be altered before finalize. In this",
            None,
        ),
        (
            "Here's a possible solution:\n\n- The first turn involves a result from the first turn.\n- Nex"
            "t, the dealer reveals a combination from the map after a 5, which is likely a possible val"
            "ue that can be added to",
            None,
        ),
        (
            "(R) on the worst of 4) king. The 7th player is not the one you are looking for. Alternativ"
            "ely, another possible answer could be sitting in the 2 and 11 hands.",
            None,
        ),
        (
            "Ab Initio: \nSi que estes tricia a un 19 vecinos, amigos de abierto, no lo en de acún es má"
            "s información, sea awesomero to",
            None,
        ),
    ],
    "1 to 10": [
        (
            "There's only one correct answer possible for this type of number-guessing game. You have o"
            "nly one number to solve, and that's to find the number where 3-8 is greater than or equal "
            "to 1.",
            None,
        ),
        (
            "The number can be simplified to a single digit without leading digits. Based on the origin"
            "al statement, it cannot be greater than 8 or greater than or less than 8. The original mes"
            "sage mentions up to 8, which still follows.",
            None,
        ),
        (
            "I'm not sure what to give you today, would you like to check a new number?",
            None,
        ),
        (
            "The number I am guessing is 22. To be more precise, I would have to subtract 1 from 10. Wh"
            "at number was 10 minus 22? \n\n10 is indeed 22.",
            None,
        ),
        (
            "To determine, how close the number is to the target, how any number and a special match.",
            None,
        ),
        (
            "Easy peatawitter, I think this challenge has the power to propel your finite problem makin"
            "g incredible use of an incorrect guess.",
            None,
        ),
        (
            "Guernsey (Spanish: Gwanze) is the name of a Ottoman lollipop dessert that's popular in Gib"
            "raltar. Can you try guessing the number next to it?",
            None,
        ),
        (
            "The number is 9.",
            "9",
        ),
    ],
    "cells": [
        (
            "*abc*\n*cd*\n*f**j*\n*eg*\n*g*\n*h*\n*i*y*\n*j* t*\n*l* xo\n*o* ***",
            None,
        ),
        (
            "You are choosing a board. Currently, there is x in the original table of finictions in 44,"
            " but I have added - 13 emergency boards that fortunately don't exist. I need to reset the "
            "asterisk next",
            None,
        ),
        (
            "However, using the number specified c*2 less than or equal to x here actually must be x, w"
            "hat is left, ^c*6 = 6c.x.",
            None,
        ),
        (
            "The Fibonomial product of any number appears to be 0 operation as the equation can only be"
            " 0 operation. It only has 3 symbols going from there, meaning that no matter what numbers "
            "you choose, nothing will have a decimal",
            None,
        ),
        (
            "The game of tic-tac-toe has many advantages. For x, it is the perennial challenge and seem"
            "s to be a familiar game to his. A chess player with the black color of his emotions. But w"
            "hat about an electric",
            None,
        ),
        (
            "The enemy, your undead enemy. The overwhelming destruction of words. The enemy, your undea"
            "d armor. The words x o. x.\nThe Aftermath: x a x x x\nWords to shalt not let you disguised h"
            "ate",
            None,
        ),
        (
            "A point in the plane to the point lying in the x.-axis and at distance 0.00019 from the unit circle.",
            None,
        ),
        (
            "The board:\ntitle\n.\nx\ncamilla\n.\n\nColor:\nspring london\n\nPolitique suivant:\n.\n\nO documentem\n\n"
            "Y el\nj\nu\n\n",
            None,
        ),
    ],
    "order": [
        (
            'This sentence uses repetition and is grammatically incorrect. The "10" must be the case in'
            ' both the type and amount, but "10" is repeating "ten" in repetition. The Japanese phrase '
            "for one of a coin is",
            None,
        ),
        (
            "Hello, it seems that I made an error in the input. The price is indeed 5 but your coin is "
            "not a dollar however it is a couple of hundred shillings so it matches what is expected.",
            None,
        ),
        (
            "Tell me more: the language specification for using Python, you can provide your own custom JSON module.",
            None,
        ),
        (
            "I'm sorry for you lost, but I've been sent many other kinds. The most obvious choice is '$"
            "1's IOFFange;10, dollars in the list, like. I need to speak to a specific product or",
            None,
        ),
        (
            "The specific coin is 5, the amount is three, and it is 100.",
            None,
        ),
        (
            'Here\'s a possible JSON string that represents this data:\n\n```json\n{\n    "kind": "buy",\n   '
            ' "amount": 5,\n    "preference": {\n        "preferred_unit": "5",\n       ',
            None,
        ),
        (
            "I'm sorry for your loss. Based on my research, I have a system of 10 liters beer. This con"
            "sists of 200 cent pieces. So, the answer would be 10 * 200 =",
            None,
        ),
        (
            "Here is a sample of a JSON in which the price of 10 coins is formatted as an expression in"
            'volving a 5 and an integer:\n```\n{\n    "kind": "buy",\n    "amount": 10,',
            None,
        ),
    ],
    "words": [
        (
            "one\nIn other words: kindness\nA way of doing things for a good kindheart",
            "one",
        ),
        (
            "zero, one, two, three, four, five, six, seven,\nIf there is one fruit, there is only one ap"
            "ple.\nThere is noifix.",
            None,
        ),
        (
            "A single apple contains one baby reference. There are three droplet sizes with one ABAR.  "
            "There are eight baby balls with six scrolling options with deer.  The ax is a precursor to"
            " male elf, are there? YES Y",
            None,
        ),
        (
            'The answer is "1".',
            "one",
        ),
        (
            "There are currently eight apples in total.",
            "eight",
        ),
        (
            "On a scale, but specifically in math, one.",
            "one",
        ),
    ],
    "number": [
        (
            "The problem is indeed this: The weight of the entire shelf, which is said to be supported "
            "by the pole, is indeed slightly leaning towards the right. This undermines a classic yin-y"
            "ang analysis and highlights the worth of the mathematical notion of",
            None,
        ),
        (
            "The number -1 is simply opposite of the positive number 1, but in this specific configurat"
            'ion of the real number line, it corresponds to the day "Futri-Laro-Lupo" in the Internatio'
            "nal System ofaya",
            None,
        ),
        (
            "The complex equation 2 * cos(x + 3) - 1 equals 0 is undefined at the origin since the quot"
            "ient of any real number result with zero, i. Therefore, for any real number, it does not",
            None,
        ),
        (
            "This refers to the direction's length.",
            None,
        ),
        (
            "lift casting shadows: It delivers, altering as collected, a cardinal facade, toward the le"
            "ft, whence is striking;\nclasp, with peak of broad manipulation, maximal, ample, expressive"
            " of Shalef, without cheek of sage, relentless",
            None,
        ),
        (
            'The pole has a "hidden" positive weight that is redistributed, so it is more accurately me'
            "asured as 1 in 2, not -1 as it would be measured otherwise.",
            None,
        ),
    ],
}

THINKING: list[tuple[str, bool, bool, str | None]] = [
    # reply, whether the limit of tokens cut it off, whether the prompt had opened the thinking, reading of digits
    ("<think> It could be 4. </think> 3", False, False, "3"),
    ("<think>4</think>\n\nThe answer is 3.", False, False, "3"),
    ("It could be 4.\n</think>\n3", False, True, "3"),
    ("<thinking>4?</thinking>3", False, False, "3"),
    ("[THINK]4[/THINK]3", False, False, "3"),
    ("<think>4</think><think>5</think>3", False, False, "3"),
    ("3", False, False, "3"),
    ("<think> First idea: it could be 3, but", True, False, None),
    ("<think> First idea: it could be 3, but", False, False, None),
    ("First idea: it could be 3, but", True, True, None),
    ("First idea: it could be 3, but", False, True, None),
    ("3", False, True, None),
    ("<think>4</think>3<think>", False, False, None),
    ("<think>4</think>", True, False, None),
    ("<reasoning>3", True, False, None),
    ("First idea: it could be 3, but", True, False, None),
    ("3", True, False, "3"),
    ("<think>4</think>3", True, False, "3"),
    ("<answer>3</answer> since", True, False, "3"),
    ("\\boxed{3} as", True, False, "3"),
    ("<answer>3", True, False, None),
    ("The answer is 3", True, False, None),
    ("six", True, False, "6"),
    ("I say 3", True, False, None),
]

CUT_OFF: list[tuple[str, str, Any]] = [
    # form, reply that the limit of tokens cut off, reading
    ("hit or stand", "hit", "hit"),
    ("hit or stand", "hi", None),
    ("hit or stand", "I would hit", None),
    ("1 to 12", "1", None),
    ("1 to 12", "2", "2"),
    ("1 to 12", "12", "12"),
    ("nim", "3 take 5", "3 take 5"),
    ("number", "3", None),
    ("number", "3.5", None),
    ("number", "<answer>3.5</answer>", 3.5),
    ("text", "go nor", None),
    ("text", "<answer>go north</answer>", "go north"),
    ("order", '{"kind": "buy", "amount": 5}', _BUY),
    ("order", '{"kind": "buy", "amount": 5', None),
    ("tools", '<tool_call> {"name": "add", "arguments": {"a": 1, "b": 2}}', _ADD),
    ("tools", '<tool_call> {"name": "add", "arguments": {"a": 1, "b": 2}', None),
]
