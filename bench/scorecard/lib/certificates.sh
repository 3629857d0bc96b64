# make_certificates FOLDER: authority.pem, and rank.pem with rank.key of it, for two days.
make_certificates() {
  local curve=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
  (
    umask 077
    cd "$1"
    openssl req -x509 "${curve[@]}" -days 2 -subj /CN=scorecard -keyout authority.key -out authority.pem
    openssl req "${curve[@]}" -subj /CN=rank -keyout rank.key |
      openssl x509 -req -CA authority.pem -CAkey authority.key -days 2 -out rank.pem
  ) 2>/dev/null
}
