#!/bin/bash
# B43_java | B | jemalloc#1919, jemalloc#2032, kontainapp/km#1515 (JDK uses LD_PRELOAD itself) | JVM with threads, direct buffers, ProcessBuilder, hsdis-free exit
. "$(dirname "$0")/lib.sh"
command -v javac >/dev/null && J=1; mkdir $d/j; cat >$d/j/T.java <<'J'
import java.nio.*;import java.util.*;
public class T{public static void main(String[] a)throws Exception{List<Thread> l=new ArrayList<>();for(int t=0;t<4;t++){Thread h=new Thread(()->{for(int i=0;i<60;i++){ByteBuffer b=ByteBuffer.allocateDirect(300000+i*1000);if(b.get(299999)!=0)System.exit(3);b.put(5,(byte)1);}});h.start();l.add(h);}for(Thread h:l)h.join();
Process p=new ProcessBuilder("/bin/sh","-c","echo child; exit 4").start();String s=new String(p.getInputStream().readAllBytes()).trim();System.out.println(s+" "+p.waitFor());System.exit(6);}}
J
cd $d/j; T=19 run java -Xmx256m T.java >o 2>e; r=$?; cat o; head -3 e; [ $r = 6 ] && [ "$(cat o)" = "child 4" ] && [ ! -s e ] && ok || bad "rc=$r"
