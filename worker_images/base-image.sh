#!/usr/bin/env bash
# Make a stand-in for the base image python:3.11-slim where no registry can be reached: Debian 12, whose Python is 3.11,
# by debootstrap and `docker import`. Root only. About a minute.
#
#   base-image.sh [tag]
#
# The machine's own certificates and /etc/pip.conf go into it, so that pip works in a build as it does outside; do not
# publish the image if they are private.
# shellcheck source=worker_images/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
tag=${1:-$CPU_BASE}

main() {
    open_log base-image
    [ "$(id -u)" -eq 0 ] || die "only root can make a base image: load $tag into Docker some other way" 3
    need debootstrap debootstrap
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/schedulearn-base.XXXXXX")
    local root=$scratch/root
    step 0 80 60 "unpacking Debian 12" debootstrap --variant=minbase \
        --include=ca-certificates,python3,python3-venv,python3-pip bookworm "$root"
    progress 80 "making it small"
    cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
        cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
    fi
    if [ -e /etc/pip.conf ]; then cp /etc/pip.conf "$root/etc/pip.conf"; fi
    ln -sf python3 "$root/usr/bin/python"
    rm -f "$root"/usr/lib/python3*/EXTERNALLY-MANAGED # the official image has no such mark
    rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*.bin "$root"/var/cache/apt/archives/*.deb \
        "$root"/usr/share/{doc,man,locale}/* "$root"/var/log/*
    step 85 100 8 "importing $tag" bash -c "tar -C '$root' --one-file-system -c . | docker import \
        -c 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' -c 'CMD [\"python3\"]' \
        -c 'LABEL schedulearn.base=debootstrap' - '$tag'"
    echo "ready $tag"
}

main "$@"
exit
