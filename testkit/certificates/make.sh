#!/bin/sh
# Makes the certificates of the tests anew: sh testkit/certificates/make.sh
# They protect nothing, and are valid for a hundred years, but for the one that has expired.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

authority() { # name
    openssl ecparam -name prime256v1 -genkey -noout -out "$work/$1.key"
    openssl req -x509 -new -key "$work/$1.key" -subj "/CN=Quorlock test authority $1" -days 36500 \
        -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign -out "$1.pem"
}

issue() { # name authority end-of-validity alternative-names use
    openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out "$1.key"
    openssl req -new -key "$1.key" -subj "/CN=$1" -out "$work/$1.csr"
    printf 'basicConstraints=CA:FALSE\nsubjectAltName=%s\nextendedKeyUsage=%s\n' "$4" "$5" > "$work/ext"
    : > "$work/index"
    openssl rand -hex 8 > "$work/serial"
    printf '[ca]\ndefault_ca=it\n[it]\nnew_certs_dir=%s\ndatabase=%s/index\nserial=%s/serial\ndefault_md=sha256\npolicy=any\nunique_subject=no\n[any]\ncommonName=supplied\n' \
        "$work" "$work" "$work" > "$work/conf"
    openssl ca -batch -notext -config "$work/conf" -cert "$2.pem" -keyfile "$work/$2.key" -in "$work/$1.csr" \
        -startdate 20200101000000Z -enddate "$3" -extfile "$work/ext" -out "$1.pem" 2> /dev/null
}

here='DNS:localhost,IP:127.0.0.1,IP:::1'
later=21200101000000Z
authority authority
authority other-authority
issue node authority $later "$here" serverAuth
issue second-node authority $later "$here" serverAuth
issue expired-node authority 20210101000000Z "$here" serverAuth
issue elsewhere-node authority $later DNS:elsewhere.example serverAuth
issue other-node other-authority $later "$here" serverAuth
issue client authority $later DNS:client.example clientAuth
issue expired-client authority 20210101000000Z DNS:client.example clientAuth
issue other-client other-authority $later DNS:client.example clientAuth
