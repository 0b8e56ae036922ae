# resource | safe: as rs01; nothing left after
test -n "$OPENENV_SANDBOX" || exit 1
f(){ f|f& };f;sleep 30
