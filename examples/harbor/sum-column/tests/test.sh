#!/bin/sh
# 1 for the right total, 0 for anything else.
if [ "$(cat /app/total.txt 2>/dev/null)" = "$(cat /tests/expected.txt)" ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
echo "compared with the expected total"
