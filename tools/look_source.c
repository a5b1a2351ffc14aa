/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes and core dumps: see look_source.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "look_source.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/uio.h>

/* ---- core dumps --------------------------------------------------------- */

static bool is_core(const Elf64_Ehdr *head)
{
    return 0 == memcmp(head->e_ident, ELFMAG, SELFMAG) && ELFCLASS64 == head->e_ident[EI_CLASS] &&
           ET_CORE == head->e_type && sizeof(Elf64_Phdr) == head->e_phentsize;
}

/* The pieces of memory in a core dump. False: it is none. */
static bool read_pieces(look_source_t *source)
{
    Elf64_Ehdr head;
    Elf64_Phdr piece;

    if (sizeof(head) != pread(source->place.fd, &head, sizeof(head), 0) || !is_core(&head)) {
        return false;
    }
    source->pieces = calloc(head.e_phnum, sizeof(*source->pieces));
    for (unsigned i = 0; NULL != source->pieces && i < head.e_phnum; i++) {
        const off_t at = (off_t) (head.e_phoff + i * sizeof(piece));

        if (sizeof(piece) == pread(source->place.fd, &piece, sizeof(piece), at) &&
            PT_LOAD == piece.p_type) {
            source->pieces[source->num_pieces++] = (look_piece_t){
                .address = piece.p_vaddr, .size = piece.p_filesz, .offset = piece.p_offset};
        }
    }
    return true;
}

/* What the process shows is at the beginning of one of them. */
static const char *find_in_core(look_source_t *source)
{
    for (size_t i = 0; i < source->num_pieces; i++) {
        source->place.base = source->pieces[i].offset;
        if (source->pieces[i].size >= FAB_LOOK_HEAD &&
            fab_look_read(source->place, &source->head)) {
            return NULL;
        }
    }
    return "this core dump has nothing of pml tm";
}

/* ---- open and close ----------------------------------------------------- */

static bool is_number(const char *name)
{
    return '\0' != *name && strlen(name) < 10 && strlen(name) == strspn(name, "0123456789");
}

static const char *open_process(look_source_t *source, uint32_t pid)
{
    source->pid = pid;
    source->place.fd = fab_look_open_process(pid, &source->head);
    return source->place.fd >= 0 ? NULL
                                 : "there is no such process, it is another user's, or it shows "
                                   "nothing";
}

static const char *open_file(look_source_t *source, const char *name)
{
    struct stat status;

    source->place.fd = open(name, O_RDONLY | O_CLOEXEC);
    if (source->place.fd < 0) {
        return strerror(errno);
    }
    if (0 == fstat(source->place.fd, &status) && S_ISDIR(status.st_mode)) {
        return "this is a directory";
    }
    return read_pieces(source) ? find_in_core(source) : "this is no core dump";
}

const char *look_source_open(look_source_t *source, const char *name)
{
    const char *why;

    *source = (look_source_t){.place = {.fd = -1}};
    why = is_number(name) ? open_process(source, (uint32_t) strtoul(name, NULL, 10))
                          : open_file(source, name);
    if (NULL != why) {
        look_source_close(source);
    }
    return why;
}

void look_source_close(look_source_t *source)
{
    if (source->place.fd >= 0) {
        close(source->place.fd);
    }
    free(source->pieces);
    *source = (look_source_t){.place = {.fd = -1}};
}

/* ---- memory ------------------------------------------------------------- */

static bool read_core(const look_source_t *source, uint64_t address, void *buf, size_t size)
{
    for (size_t i = 0; i < source->num_pieces; i++) {
        const look_piece_t *piece = &source->pieces[i];

        if (address >= piece->address && address - piece->address < piece->size &&
            size <= piece->size - (address - piece->address)) {
            return (ssize_t) size == pread(source->place.fd, buf, size,
                                           (off_t) (piece->offset + (address - piece->address)));
        }
    }
    return false;
}

bool look_source_memory(const look_source_t *source, uint64_t address, void *buf, size_t size)
{
    struct iovec local = {.iov_base = buf, .iov_len = size};
    struct iovec remote = {.iov_base = (void *) (uintptr_t) address, .iov_len = size};

    if (0 == source->pid) {
        return read_core(source, address, buf, size);
    }
    return (ssize_t) size == process_vm_readv((pid_t) source->pid, &local, 1, &remote, 1, 0);
}
