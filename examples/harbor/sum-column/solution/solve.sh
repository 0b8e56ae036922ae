#!/bin/sh
awk -F, 'NR > 1 { sum += $2 } END { printf "%.2f\n", sum }' "$TABLE" > total.txt
